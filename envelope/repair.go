package envelope

import "time"

// DamagedCall is a call whose log has lost events at rest. A dispatcher has found that, and refuses its requests.
type DamagedCall struct {
	Ref    string `json:"ref"` // for [RepairRequest]
	Tenant string `json:"tenant"`
	Tool   string `json:"tool"`
	// End is the sequence at which the log ends; 0 if nothing is left of it. Newest is the low half of the sequence of
	// the newest event that was in it.
	End      uint64    `json:"end"`
	Newest   uint32    `json:"newest"`
	Found    time.Time `json:"found"`
	Expires  time.Time `json:"expires"` // when the key is forgotten
	Decision Repair    `json:"decision,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	By       string    `json:"by,omitzero"` // tenant and actor of the operator, with a slash between them
	Decided  time.Time `json:"decided,omitzero"`
}

// Repair is the decision of an operator about a call whose log is damaged.
type Repair string

// Values of [Repair].
const (
	RepairAccept Repair = "accept" // what the log holds now counts: the call may run again
	RepairRefuse Repair = "refuse" // the key ends with P-PRECOND-LOG_DAMAGED, effect unknown, until it is forgotten
)

// RepairRequest decides about a call whose log is damaged. Reason is at most [MaxLockReason] bytes.
type RepairRequest struct {
	Ref      string `json:"ref"`
	Decision Repair `json:"decision"`
	Reason   string `json:"reason"`
}

// RepairsResponse lists the calls whose logs were found damaged, oldest first. The answer to a [RepairRequest] has the
// call of the request. Changed is false if the request changed nothing.
type RepairsResponse struct {
	Calls   []DamagedCall `json:"calls"`
	Changed bool          `json:"changed,omitzero"`
}
