package call

import (
	"fmt"
	"time"
)

// DamagedError means that the server has lost events of a log at rest, and not the end of the whole call log. The state
// of the call is unknown. Nobody may write to the log until an operator has decided.
type DamagedError struct {
	Ref     string    // of the call
	End     uint64    // sequence at which the log ends now; 0 if nothing is left of it
	Newest  uint32    // low half of the sequence of the newest event that is known
	Expires time.Time // when that event is to expire, in bus time
	Refused bool      // an operator has ended the key for good; Newest and Expires are not set
}

func (d *DamagedError) Error() string {
	if d.Refused {
		return fmt.Sprintf("the log of call %s was damaged, and an operator has ended its key", d.Ref)
	}
	return fmt.Sprintf("the log of call %s is damaged: the server has lost events of it", d.Ref)
}
