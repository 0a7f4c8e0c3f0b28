package audit

import "time"

// Act is the part of a record that tells the intent of an operation from its result. The intent is recorded before the
// operation changes anything, and the result after. If there is no result, a dispatcher ended between the two, and the
// operation may have acted or not. Builds up to 89c5406f record the intent alone, without an Act.
type Act struct {
	Op     string   `json:"op"` // name of the operation
	State  ActState `json:"state"`
	Intent string   `json:"intent,omitzero"` // in a result: id of the record of the intent, if there is one
}

// ActState is the state of an operation in a record.
type ActState string

// Values of [ActState]. The record of an operation that is refused, or whose effect is not known, is that of a refusal,
// with the code of the answer.
const (
	ActIntended ActState = "intended"
	ActDone     ActState = "done"
	ActRefused  ActState = "refused"
	ActUnknown  ActState = "unknown" // the store did not answer: the operation may have acted, or may act yet
)

// Done returns the record of the success of the operation whose intent is r.
func (r Record) Done(at time.Time) Record {
	r.Act = &Act{Op: r.Act.Op, State: ActDone, Intent: r.EventID}
	r.Timestamp, r.EventID, r.Salt = at.UTC(), "", ""
	return r
}

// describe adds to the record r of a refusal what a record says about the operation that was refused. It leaves out the
// run: readers take a refusal with a run for one of a call of the run.
func (r *Record) describe(of *Record) {
	r.Act = &Act{Op: of.Act.Op, State: ActRefused, Intent: of.EventID}
	if of.EventID != "" && r.Code.Retryable() {
		r.Act.State = ActUnknown
	}
	r.RoleID, r.LaneID, r.ToolName, r.Policies = of.RoleID, of.LaneID, of.ToolName, of.Policies
	r.Credential, r.Lock, r.Push, r.Run, r.Repair = of.Credential, of.Lock, of.Push, of.Run, of.Repair
	r.Ref = of.Ref
}
