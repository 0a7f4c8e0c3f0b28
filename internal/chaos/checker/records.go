package checker

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// sorted returns the logs ordered by reference.
func (x *index) sorted() []*log {
	var logs []*log
	for _, ref := range slices.Sorted(maps.Keys(x.logs)) {
		logs = append(logs, x.logs[ref])
	}
	return logs
}

// checkEffects checks P3: a side-effectful call has at most one effect, and every call at most one successful attempt.
func checkEffects(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		done := x.done[l.ref]
		if l.last.Class == call.SideEffectful && len(done) > 1 {
			found = append(found, l.broken("%d effects: %+v", len(done), done))
		}
		successes := 0
		for _, a := range l.last.Attempts {
			if a.Decision != nil && a.Decision.Status == envelope.Success {
				successes++
			}
		}
		if successes > 1 {
			found = append(found, l.broken("%d attempts succeeded", successes))
		}
	}
	return found
}

// fences checks that no two runs of a call have the same fence. Otherwise a tool could not tell an old run from a new
// one, and their chunks would mix.
func fences(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		runs := map[uint64]int{}
		for _, e := range x.starts[l.ref] {
			if pid, ok := runs[e.Fence]; ok && pid != e.PID {
				found = append(found, l.broken("two runs of attempt %d have the fence %d: processes %d and %d", e.Attempt, e.Fence,
					pid, e.PID))
			}
			runs[e.Fence] = e.PID
		}
	}
	return found
}

// keys checks P3: a tool whose lookup gets a key answers for the call with that key, so each key must belong to one
// call.
func keys(x *index) (found []Violation) {
	for _, e := range x.Effects {
		l := x.logs[refOf(e)]
		if l == nil {
			found = append(found, Violation{CallID: e.CallID, Says: fmt.Sprintf("%+v: its key is that of no call", e)})
			continue
		}
		if a, ok := l.last.Attempt(e.Attempt); ok && a.Owner.CallID != e.CallID {
			found = append(found, l.broken("%+v: its key is that of call %s", e, a.Owner.CallID))
		}
	}
	return found
}

// recorded checks P4: every run has a request, or a claim, that was stored before.
func recorded(x *index) (found []Violation) {
	for _, e := range x.Effects {
		ref := refOf(e)
		l := x.logs[ref]
		if l == nil {
			found = append(found, Violation{Ref: ref, CallID: e.CallID, Says: fmt.Sprintf("%+v, and there is no log", e)})
			continue
		}
		if !l.allowed(e) {
			found = append(found, l.broken("%+v: its request or claim is not in the log, or came later", e))
		}
	}
	return found
}

// allowed reports whether the log permitted this run.
func (l *log) allowed(e effects.Line) bool {
	for _, event := range l.events {
		switch {
		case event.Attempt != e.Attempt || event.Time.After(time.Unix(0, e.Time)):
		case event.Kind == call.Claimed && event.State.Seq == e.Fence:
			return true
		case event.Kind == call.Requested && event.State.Seq == e.Fence && l.last.Class != call.SideEffectful:
			return true
		}
	}
	return false
}

// honesty checks P7: the effect in an outcome is the one that the ledger shows.
func honesty(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		for _, a := range l.last.Attempts {
			if a.Decision == nil || l.last.Class == call.Pure {
				continue
			}
			if says := x.honest(l, a); says != "" {
				found = append(found, l.broken("attempt %d: %s", a.N, says))
			}
		}
	}
	return append(found, x.harmless()...)
}

// harmless checks that a refusal states effect none only if the key had no effect before. Who has opened no attempt of
// the key gets none.
func (x *index) harmless() (found []Violation) {
	for _, a := range x.Asks {
		l := x.logs[a.Ref]
		for _, r := range a.Answers {
			other := l == nil || l.last.Class == call.Pure || !a.same(l) || !l.last.OwnedBy(a.Actor)
			if other || !turnedDown(r) || effect(r) != envelope.EffectNone {
				continue
			}
			for _, e := range x.done[a.Ref] {
				if time.Unix(0, e.Time).Before(a.Sent) {
					found = append(found, a.broken("its refusal (%s) says effect none, and there is %+v", code(r), e))
				}
			}
		}
	}
	return found
}

// unstarted checks outcomes that state that no executor started the call, because callers then repeat side-effectful
// calls.
func unstarted(x *index) (found []Violation) {
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			n := r.Provenance.Attempt
			if !r.Provenance.NotStarted || n == 0 {
				continue
			}
			if l := x.logs[a.Ref]; l != nil {
				if attempt, _ := l.last.Attempt(n); attempt.Claim != nil {
					found = append(found, a.broken("attempt %d is said not to have been started, and was claimed", n))
				}
			}
			if starts := x.startsOf(a.Ref, n); len(starts) > 0 {
				found = append(found, a.broken("attempt %d is said not to have been started, and there is %+v", n, starts))
			}
		}
	}
	return found
}

func (x *index) honest(l *log, a call.Attempt) string {
	d, done := a.Decision, x.doneOf(l.ref, a.N)
	switch {
	case d.Effect == envelope.EffectNone && len(done) > 0:
		return fmt.Sprintf("the effect is said to be none, and there is %+v", done)
	case d.Effect == envelope.EffectApplied && len(done) == 0:
		return "the effect is said to be applied, and there is none"
	case l.last.Class == call.SideEffectful && a.Claim == nil && len(x.startsOf(l.ref, a.N)) > 0:
		return "it was never claimed, and was started"
	case d.Status != envelope.Success:
		return ""
	}
	stored, err := l.outcome(a.N)
	if err != nil {
		return err.Error()
	}
	if stored.Provenance.OutputRef != nil {
		return "" // its reader has verified the hash
	}
	var out effects.Output
	if err := json.Unmarshal(stored.Output, &out); err != nil {
		return fmt.Sprintf("the output %s is none of a tool's", stored.Output)
	}
	for _, e := range done {
		if out.Run == fmt.Sprintf("%d/%d", e.Fence, e.PID) {
			return ""
		}
	}
	return fmt.Sprintf("the output is that of run %s, which had no effect", out.Run)
}

// graves checks that a dead letter exists for each attempt that was given up.
func graves(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		for _, a := range l.last.Attempts {
			if a.Decision != nil && a.Decision.Code == envelope.CodeLost && !slices.Contains(x.Dead, Grave{l.ref, a.N}) {
				found = append(found, l.broken("attempt %d was given up, and there is no dead letter", a.N))
			}
		}
	}
	return found
}

// shapes checks each event against the state machine of a call.
func shapes(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		var before call.State
		for _, e := range l.events {
			if says := follows(before, e); says != "" {
				found = append(found, l.broken("event %s of attempt %d at %d: %s", e.Kind, e.Attempt, e.State.Seq, says))
			}
			before = e.State
		}
	}
	return found
}

// follows returns why e must not follow the state before, or "".
func follows(before call.State, e call.Entry) string {
	if !before.Empty() && before.Pinned != e.State.Pinned {
		return "the facts of the call have changed"
	}
	if e.Kind == call.Requested {
		return admits(before, e)
	}
	if before.Empty() || before.Last().N != e.Attempt {
		return "it is of an attempt that is not the last"
	}
	was, is := before.Last(), e.State.Last()
	if len(e.State.Attempts) != len(before.Attempts) || !sameAttempts(before.Attempts[:e.Attempt-1], e.State.Attempts) {
		return "earlier attempts have changed"
	}
	if !was.Open() {
		return "the attempt was decided"
	}
	return steps(was, is, e, before.Class)
}

// sameAttempts reports whether the attempts were equal the first attempts of are. Members that a newer build has added
// to them do not count as differences.
func sameAttempts(were, are []call.Attempt) bool {
	for i, was := range were {
		if was.More == "" {
			was.More = are[i].More
		}
		if !reflect.DeepEqual(was, are[i]) {
			return false
		}
	}
	return true
}

func admits(before call.State, e call.Entry) string {
	n := len(before.Attempts) + 1
	switch {
	case e.Attempt != n || len(e.State.Attempts) != n:
		return fmt.Sprintf("attempt %d is next", n)
	case before.Empty():
		return ""
	case before.Last().Open():
		return "the attempt before it is open"
	case before.Final():
		return "the call was over"
	case !sameAttempts(before.Attempts, e.State.Attempts):
		return "earlier attempts have changed"
	}
	return ""
}

// steps returns what is wrong with an event within an attempt, or "".
func steps(was, is call.Attempt, e call.Entry, class call.EffectClass) string {
	joined := len(is.Joined) >= len(was.Joined) && slices.Equal(is.Joined[:len(was.Joined)], was.Joined)
	same := is
	same.Joined, same.Claim, same.Decision = was.Joined, was.Claim, was.Decision
	switch {
	case !sameAttempts([]call.Attempt{was}, []call.Attempt{same}):
		return "the admission has changed"
	case !joined || e.Kind != call.Joined && len(is.Joined) != len(was.Joined):
		return "the joiners have changed"
	case e.Kind != call.Claimed && !reflect.DeepEqual(is.Claim, was.Claim):
		return "the claim has changed"
	case e.Kind != call.Decided && is.Decision != nil:
		return "it carries a decision"
	case e.Kind == call.Claimed && was.Claim != nil && class == call.SideEffectful:
		return "a side-effectful call was claimed twice"
	case e.Kind == call.Claimed && (is.Claim == nil || is.Claim.Fence != e.State.Seq):
		return "its fence is not its sequence"
	case e.Kind == call.Decided && (is.Decision == nil || is.Decision.Seq != e.State.Seq):
		return "its decision is not its own"
	}
	return ""
}

// audits checks that the audit record of each partition contains exactly the records of its events, in order.
func audits(x *index) (found []Violation) {
	projected := map[call.Position][]Record{}
	last := map[subjects.Partition]uint64{}
	for _, r := range x.Audit {
		if r.LogSeq == 0 || r.Event == audit.LateResult {
			continue
		}
		if r.LogSeq < last[r.LogPart] {
			found = append(found, Violation{Ref: r.Ref, CallID: r.CallID,
				Says: fmt.Sprintf("record %d is of event %d, and comes after that of %d", r.Seq, r.LogSeq, last[r.LogPart])})
		}
		last[r.LogPart] = r.LogSeq
		at := call.Position{Partition: r.LogPart, Seq: r.LogSeq}
		projected[at] = append(projected[at], r)
	}
	older := slices.ContainsFunc(x.Audit, func(r Record) bool { return r.LogSeq > 0 && r.Form < format.Record.Current() })
	for _, e := range x.Log {
		have := projected[e.State.Position]
		delete(projected, e.State.Position)
		if says := reflects(e, have, older); says != "" {
			found = append(found, Violation{Ref: e.State.Ref(),
				Says: fmt.Sprintf("event %s of attempt %d at %d: %s", e.Kind, e.Attempt, e.State.Seq, says)})
		}
	}
	for at, records := range projected {
		found = append(found, Violation{Ref: records[0].Ref,
			Says: fmt.Sprintf("%s is of event %d, which the log does not hold", records[0].Event, at.Seq)})
	}
	return append(found, x.terminals()...)
}

// reflects returns what is wrong with the records of an event. older means that dispatchers of build 8119cace wrote
// records, too. Those write the first record of an event, in form 3 and without policy versions.
func reflects(e call.Entry, have []Record, older bool) string {
	want := audit.Project(e.Kind, e.Attempt, e.State, e.State.Seq, e.Time)
	if older {
		want = slices.DeleteFunc(want, func(w audit.Record) bool {
			return !w.FirstOfEvent() && !slices.ContainsFunc(have, func(h Record) bool { return h.Event == w.Event })
		})
	}
	switch {
	case len(want) == 0 && len(have) > 0:
		return "auditors are not told of it, and there is a record"
	case len(want) != len(have):
		return fmt.Sprintf("%d records", len(have))
	}
	for i, w := range want {
		if have[i].Form < w.Form {
			w.Determinism, w.Policies = e.State.Class, envelope.PolicyVersions{}
		}
		if !sameRecord(w, have[i].Record) {
			return fmt.Sprintf("its record is %+v", have[i].Record)
		}
	}
	return ""
}

// sameRecord compares two records as they are stored, without format number and salt.
func sameRecord(a, b audit.Record) bool {
	a.Form, b.Form, a.Salt, b.Salt = 0, 0, "", ""
	rawA, errA := json.Marshal(a, json.Deterministic(true))
	rawB, errB := json.Marshal(b, json.Deterministic(true))
	return errA == nil && errB == nil && string(rawA) == string(rawB)
}

// terminals checks AUDIT by itself: each attempt has a request first, and then exactly one end.
func (x *index) terminals() (found []Violation) {
	requested, ended := map[string]bool{}, map[string]int{}
	for _, r := range x.Audit {
		if r.LogSeq == 0 || r.Event == audit.LateResult {
			continue
		}
		attempt := fmt.Sprintf("%s attempt %d", r.Ref, r.Attempt)
		switch {
		case r.Event == audit.ToolRequested:
			requested[attempt] = true
			continue
		case !requested[attempt]:
			found = append(found, Violation{Ref: r.Ref, CallID: r.CallID,
				Says: fmt.Sprintf("%s before tool_requested", r.Event)})
		}
		if !r.FirstOfEvent() {
			continue
		}
		if ended[attempt]++; ended[attempt] > 1 {
			found = append(found, Violation{Ref: r.Ref, CallID: r.CallID,
				Says: fmt.Sprintf("%s is a second end of %s", r.Event, attempt)})
		}
	}
	for attempt := range requested {
		if ended[attempt] == 0 {
			found = append(found, Violation{Says: attempt + " has no end in AUDIT"})
		}
	}
	return found
}
