package envelope

import (
	"fmt"
	"time"
)

// LockTarget selects the calls that a safety lock stops: all of them, those of a tool, or those in a lane.
// Exactly one field is set.
type LockTarget struct {
	All  bool   `json:"all,omitzero"`
	Lane string `json:"lane,omitzero"` // context.lane_id, or the lane of a call that names none
	Tool string `json:"tool,omitzero"`
}

// Single reports whether exactly one field is set.
func (t LockTarget) Single() bool {
	one := t == LockTarget{All: t.All} || t == LockTarget{Lane: t.Lane} || t == LockTarget{Tool: t.Tool}
	return one && t != LockTarget{}
}

// Covers reports whether the target selects the calls of a tool in a lane.
func (t LockTarget) Covers(tool, lane string) bool {
	return t.All || t.Tool != "" && t.Tool == tool || t.Lane != "" && t.Lane == lane
}

// String returns the target for a sentence, such as "the tool fs.write".
func (t LockTarget) String() string {
	switch {
	case t.All:
		return "all calls"
	case t.Lane != "":
		return fmt.Sprintf("the lane %.100s", t.Lane)
	}
	return fmt.Sprintf("the tool %.100s", t.Tool)
}

// Flag returns the flag of `toolbus lock` and `toolbus unlock` that selects the target.
func (t LockTarget) Flag() string {
	switch {
	case t.All:
		return "--all"
	case t.Lane != "":
		return fmt.Sprintf("--lane %.100s", t.Lane)
	}
	return fmt.Sprintf("--tool %.100s", t.Tool)
}

// Lock is a safety lock in force.
type Lock struct {
	LockTarget
	Reason string    `json:"reason"`
	By     string    `json:"by"` // tenant and actor of the operator, with a slash between them
	At     time.Time `json:"at"`
}

// LockRequest sets or clears the safety lock of a target. Reason is at most [MaxLockReason] bytes, and is shown to the
// callers of locked calls.
type LockRequest struct {
	LockTarget
	Reason string `json:"reason"`
	// Expect is [LocksResponse.Revision] as the operator knew it; nil if the locks may have any. If they have another
	// one now, the request is refused with [CodeChanged].
	Expect *uint64 `json:"expect,omitzero"`
}

// MaxLockReason is the largest length of the reason of a lock in bytes.
const MaxLockReason = 300

// LocksResponse holds the safety locks in force, oldest first. Changed is false if the request changed nothing: the
// lock was in force already, or there was no lock to clear. Unchecked means that no policy could be read, so that it
// is not known whether the locked tool or lane exists.
// Each request that is carried out gives the locks a new Revision; dispatchers of earlier builds leave it out.
type LocksResponse struct {
	Locks     []Lock  `json:"locks"`
	Changed   bool    `json:"changed,omitzero"`
	Unchecked bool    `json:"unchecked,omitzero"`
	Revision  *uint64 `json:"revision,omitzero"`
}

// Lock returns the lock of a target, or the zero Lock if the target has no lock.
func (r LocksResponse) Lock(t LockTarget) (l Lock) {
	for _, l := range r.Locks {
		if l.LockTarget == t {
			return l
		}
	}
	return l
}

// LockKillRequest ends running calls that the safety lock of a target covers, one page of them.
type LockKillRequest struct {
	LockTarget
	After LockKillPosition `json:"after,omitzero"` // Next of the answer before; zero at first
}

// LockKillPosition is a place among the open calls of a deployment.
type LockKillPosition struct {
	Part int    `json:"part"`
	Seq  uint64 `json:"seq"`
}

// LockKillResponse lists the calls that the request has ended. More says that open calls after Next were not looked
// at.
type LockKillResponse struct {
	Killed []KilledCall     `json:"killed"`
	Next   LockKillPosition `json:"next"`
	More   bool             `json:"more,omitzero"`
}

// KilledCall is a call that was running, and that a safety lock has ended. Effect says what it may have done.
type KilledCall struct {
	Ref    string `json:"ref"` // for `toolbus why`
	Tool   string `json:"tool"`
	Effect Effect `json:"effect"`
}
