package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	const class = call.Idempotent
	for name, c := range map[string]struct {
		log  func(*journal)
		ask  func(*call.AdmitRequest)
		want call.AdmitResult // without the event
	}{
		"a new key": {func(*journal) {}, nil, call.AdmitResult{Do: call.Write, Attempt: 1}},
		"the owner again, open": {func(j *journal) { j.admit(class, "B") }, nil, call.AdmitResult{Do: call.Await,
			Attempt: 1}},
		"a joiner again, open": {func(j *journal) { j.admit(class, "A"); j.admit(class, "B") }, nil,
			call.AdmitResult{Do: call.Await, Attempt: 1}},
		"the owner again, decided": {func(j *journal) { j.admit(class, "B"); j.fail() }, nil,
			call.AdmitResult{Do: call.Replay, Attempt: 1}},
		"the owner of the first attempt, when the second is open": {
			func(j *journal) { j.admit(class, "B"); j.fail(); j.admit(class, "A") }, nil,
			call.AdmitResult{Do: call.Replay, Attempt: 1},
		},
		"the owner of the first attempt, when the second succeeded": {
			func(j *journal) { j.admit(class, "B"); j.fail(); j.admit(class, "A"); j.succeed() }, nil,
			call.AdmitResult{Do: call.Replay, Attempt: 1},
		},
		"another caller, open": {func(j *journal) { j.admit(class, "A") }, nil, call.AdmitResult{Do: call.Join, Attempt: 1}},
		"another caller, claimed": {func(j *journal) { j.admit(class, "A"); j.claim("c1") }, nil,
			call.AdmitResult{Do: call.Join, Attempt: 1}},
		"another caller, success": {func(j *journal) { j.admit(class, "A"); j.succeed() }, nil,
			call.AdmitResult{Do: call.Replay, Attempt: 1}},
		"another caller, retryable": {func(j *journal) { j.admit(class, "A"); j.fail() }, nil,
			call.AdmitResult{Do: call.Write, Attempt: 2}},
		"another caller, terminal": {
			func(j *journal) { j.admit(class, "A"); j.decide(call.Completion{Cause: call.Poisoned}) }, nil,
			call.AdmitResult{Do: call.Replay, Attempt: 1},
		},
		"another input, open": {
			func(j *journal) { j.admit(class, "A") }, func(a *call.AdmitRequest) { a.Fingerprint = "other" },
			call.AdmitResult{Do: call.Refuse, Code: envelope.CodeKeyReused},
		},
		"another input from the owner itself, decided": {
			func(j *journal) { j.admit(class, "B"); j.succeed() }, func(a *call.AdmitRequest) { a.Fingerprint = "other" },
			call.AdmitResult{Do: call.Refuse, Code: envelope.CodeKeyReused},
		},
		"no attempts left": {func(j *journal) {
			for n := range call.MaxAttempts {
				j.admit(class, fmt.Sprint("A", n))
				j.fail()
			}
		}, nil, call.AdmitResult{Do: call.Refuse, Code: envelope.CodeAttempts}},
		"no room to join": {func(j *journal) {
			j.admit(class, "A")
			j.joinMany(call.MaxJoined)
		}, nil, call.AdmitResult{Do: call.Refuse, Code: envelope.CodeJoiners}},
		"no room to join the second attempt": {func(j *journal) {
			j.admit(class, "A")
			j.joinMany(call.MaxJoined)
			j.fail()
			j.admit(class, "C")
			j.joinMany(call.MaxJoined)
		}, func(a *call.AdmitRequest) { a.Owner.CallID = uuid.NewString() },
			call.AdmitResult{Do: call.Refuse, Code: envelope.CodeJoiners}},
		"no room for another attempt": {func(j *journal) {
			j.admit(class, "A")
			j.state.Tenant = strings.Repeat("x", 60<<10)
			j.fail()
		}, nil, call.AdmitResult{Do: call.Refuse, Code: envelope.CodeAttempts}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			c.log(j)
			a := ask(class, "B")
			if c.ask != nil {
				c.ask(&a)
			}
			got := call.Admit(j.state, a)
			if wrote := got.Event.Kind != ""; wrote != (got.Do == call.Write) {
				t.Errorf("event %+v with admission %d", got.Event, got.Do)
			}
			got.Event = call.Event{}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// joinMany joins n callers, as many at once as there is room for.
func (j *journal) joinMany(n int) (left []string) {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	e, left := call.JoinAll(j.state, j.state.Last().N, ids, "j")
	j.add(e)
	return left
}

func TestAdmittedEvent(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Pure, "A")
	first := j.state
	j.fail()

	b := ask(call.SideEffectful, "B")
	b.Pinned.Version, b.Pinned.Class, b.Now, b.Deadline, b.Priority = "2.0.0", call.SideEffectful, start+100, start+900,
		envelope.PriorityHigh
	v := call.Admit(j.state, b)
	if v.Event.Kind != call.Requested || v.Event.Attempt != 2 || v.Event.Nonce != "q-B" ||
		v.Event.State.Seq != j.state.Seq {
		t.Errorf("event %+v", v.Event)
	}
	if diff := cmp.Diff(first.Pinned, v.Event.State.Pinned); diff != "" {
		t.Errorf("a retry has other facts than the first attempt: %s", diff)
	}
	want := call.Attempt{N: 2, Owner: b.Owner, Nonce: "q-B", At: start + 100, Deadline: start + 900,
		Priority: envelope.PriorityHigh}
	if diff := cmp.Diff(want, v.Event.State.Last()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(j.state.Attempts, v.Event.State.Attempts[:1]); diff != "" {
		t.Errorf("the first attempt has changed: %s", diff)
	}
	if len(first.Attempts) != 1 || len(j.state.Attempts) != 1 {
		t.Error("a state was changed in place")
	}
}

func TestJoinAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ids, joined, left []string
	}{
		"two":                  {[]string{"B", "C"}, []string{"B", "C"}, nil},
		"one of them twice":    {[]string{"B", "B", "C"}, []string{"B", "C"}, nil},
		"one who is the owner": {[]string{"A", "B"}, []string{"B"}, nil},
		"none":                 {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			before := j.admit(call.Pure, "A")
			e, left := call.JoinAll(j.state, 1, c.ids, "j")
			if e.Kind != call.Joined || e.Attempt != 1 || e.Nonce != "j" {
				t.Errorf("event %+v", e)
			}
			if diff := cmp.Diff(c.joined, e.State.Last().Joined); diff != "" {
				t.Errorf("joined: %s", diff)
			}
			if len(left) != len(c.left) || before.Last().Joined != nil {
				t.Errorf("left %v; joined before %v", left, before.Last().Joined)
			}
		})
	}
}

// TestJoinAllIsBounded joins far more callers than fit, over all attempts: those left over are
// the last ones, and they are refused by Admit too.
func TestJoinAllIsBounded(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for n := range call.MaxAttempts {
		j.admit(call.Pure, uuid.NewString())
		left := j.joinMany(2 * call.MaxJoined)
		joined := len(j.state.Last().Joined)
		if joined+len(left) != 2*call.MaxJoined || joined > call.MaxJoined || n == 0 && joined != call.MaxJoined {
			t.Fatalf("attempt %d: %d joined, %d left", n+1, joined, len(left))
		}
		if v := call.Admit(j.state, ask(call.Pure, left[0])); v.Code != envelope.CodeJoiners {
			t.Errorf("attempt %d: a caller that found no room is then told %+v", n+1, v)
		}
		j.fail()
	}
}
