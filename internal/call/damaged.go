package call

import "fmt"

// DamagedError means that the server has lost events of a log at rest, and not the end of the whole call log. The state
// of the call is unknown. Nobody may write to the log until an operator has decided.
type DamagedError struct {
	Ref string // of the call
	End uint64 // sequence at which the log ends now; 0 if nothing is left of it
}

func (d *DamagedError) Error() string {
	return fmt.Sprintf("the log of call %s is damaged: the server has lost events of it", d.Ref)
}
