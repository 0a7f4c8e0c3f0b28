package call_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// claimed is a log of a side-effectful call that "claimer" has claimed.
func claimed(t *testing.T, lookup call.Lookup) *journal {
	t.Helper()
	j := newJournal(t)
	a := ask(call.SideEffectful, "A")
	a.Pinned.Lookup, a.Pinned.Digest, a.Pinned.DryRun = lookup, "d", false
	j.add(call.Admit(j.state, a).Event)
	j.claim("claimer.1")
	return j
}

// decision returns what instance would write to end the newest attempt of s.
func decision(
	s call.State, instance string, status envelope.Status, effect envelope.Effect, by call.Decider,
) call.Event {
	e := call.Event{Kind: call.Decided, Attempt: s.Last().N, Nonce: instance + ".9", State: s}
	e.State.Attempts = append([]call.Attempt(nil), s.Attempts...)
	e.State.Attempts[len(s.Attempts)-1].Decision = &call.Decision{Nonce: e.Nonce, Status: status, Effect: effect, By: by}
	return e
}

// TestWhoMayDecide: what each party may say of an attempt that an executor has claimed, by what the request says of the
// tool.
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	const none, applied, unknown = envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown
	const all, absent, not = "absent yes no", "absent", "absent yes"
	for _, c := range []struct {
		instance string
		status   envelope.Status
		effect   envelope.Effect
		by       call.Decider
		allowed  string // with which lookup
	}{
		{"claimer", envelope.Success, applied, call.ByExecutor, all},
		{"claimer", envelope.TerminalError, applied, call.ByExecutor, all},
		{"claimer", envelope.RetryableError, none, call.ByExecutor, all},
		{"claimer", envelope.RetryableError, unknown, call.ByExecutor, absent},
		{"other", envelope.Success, applied, call.ByExecutor, not},
		{"other", envelope.TerminalError, unknown, call.ByExecutor, all},
		{"other", envelope.TerminalError, none, call.ByExecutor, ""},
		{"other", envelope.TerminalError, applied, call.ByExecutor, ""},
		{"other", envelope.RetryableError, unknown, call.ByExecutor, absent},
		{"other", envelope.Success, applied, call.ByDeadline, ""},
		{"other", envelope.TerminalError, unknown, call.ByDeadline, all},
		{"other", envelope.RetryableError, none, call.ByDeadline, absent},
		{"other", envelope.TerminalError, unknown, call.ByCanceller, all},
		{"other", envelope.RetryableError, none, call.ByCanceller, absent},
		{"other", envelope.RetryableError, none, call.ByDispatcher, absent},
	} {
		for name, lookup := range map[string]call.Lookup{"absent": "", "yes": call.LookupYes, "no": call.LookupNo} {
			s := claimed(t, lookup).state
			err := s.Allows(decision(s, c.instance, c.status, c.effect, c.by))
			if want := slices.Contains(strings.Fields(c.allowed), name); (err == nil) != want {
				t.Errorf("%s says %s, effect %s, by %s, with lookup %s: %v", c.instance, c.status, c.effect, c.by, name, err)
			}
		}
	}
}

// TestOneStep: a claim or a decision of a bound log that changes any other member is not allowed. Members of newer
// builds do not count.
func TestOneStep(t *testing.T) {
	t.Parallel()
	j := claimed(t, call.LookupNo)
	e := decision(j.state, "claimer", envelope.Success, envelope.EffectApplied, call.ByExecutor)
	if err := j.state.Allows(e); err != nil {
		t.Fatal(err)
	}
	changed := 0
	// before is changed, rather than e, which Check would refuse for some members alone.
	each(reflect.TypeFor[call.Pinned](), func(i int, name string) {
		s := j.state
		change(reflect.ValueOf(&s.Pinned).Elem().Field(i))
		if s.Lookup == "" {
			s.Lookup = call.LookupYes
		}
		if err := s.Allows(e); (err == nil) != (name == "More") {
			t.Errorf("facts, %s: %v", name, err)
		}
		changed++
	})
	for _, at := range []struct {
		name string
		of   func(*call.Attempt) any
	}{
		{"attempt", func(a *call.Attempt) any { return a }},
		{"owner", func(a *call.Attempt) any { return &a.Owner }},
		{"claim", func(a *call.Attempt) any { c := *a.Claim; a.Claim = &c; return a.Claim }},
	} {
		typ := reflect.TypeOf(at.of(&claimed(t, call.LookupNo).state.Attempts[0])).Elem()
		each(typ, func(i int, name string) {
			s := j.state
			s.Attempts = append([]call.Attempt(nil), s.Attempts...)
			change(reflect.ValueOf(at.of(&s.Attempts[0])).Elem().Field(i))
			if err := s.Allows(e); (err == nil) != (name == "More" || name == "Undecoded") {
				t.Errorf("%s, %s: %v", at.name, name, err)
			}
			changed++
		})
	}
	if changed < 40 {
		t.Errorf("only %d members were changed", changed)
	}
}

func each(of reflect.Type, f func(i int, name string)) {
	for i := range of.NumField() {
		f(i, of.Field(i).Name)
	}
}

// change gives a member another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"x"}))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.SetZero()
		}
	case reflect.Struct:
		change(v.Field(0))
	default:
		panic(v.Kind())
	}
}

// TestFirstClaimStands: of a bound log, nobody claims what is claimed, ends what has ended, or binds what is not bound.
func TestFirstClaimStands(t *testing.T) {
	t.Parallel()
	for _, lookup := range []call.Lookup{call.LookupYes, call.LookupNo, ""} {
		j := claimed(t, lookup)
		seized := call.Event{Kind: call.Claimed, Attempt: 1, Nonce: "other.1", State: j.state}
		seized.State.Attempts = append([]call.Attempt(nil), j.state.Attempts...)
		seized.State.Attempts[0].Claim = &call.Claim{By: "default/other", Nonce: "other.1", Count: 1}
		if err := j.state.Allows(seized); errors.Is(err, call.ErrForeign) != (lookup != "") {
			t.Errorf("lookup %q, a second claim: %v", lookup, err)
		}
		own := decision(seized.State, "other", envelope.Success, envelope.EffectApplied, call.ByExecutor)
		if err := j.state.Allows(own); errors.Is(err, call.ErrForeign) != (lookup != "") {
			t.Errorf("lookup %q, a success under a claim of its own: %v", lookup, err)
		}
		ended := j.add(decision(j.state, "claimer", envelope.TerminalError, envelope.EffectApplied, call.ByExecutor))
		again := decision(ended, "claimer", envelope.Success, envelope.EffectApplied, call.ByExecutor)
		if err := ended.Allows(again); errors.Is(err, call.ErrForeign) != (lookup != "") {
			t.Errorf("lookup %q, a second decision: %v", lookup, err)
		}
	}
	free := claimed(t, "").state
	e := decision(free, "claimer", envelope.Success, envelope.EffectApplied, call.ByExecutor)
	e.State.Lookup = call.LookupNo
	if err := free.Allows(e); !errors.Is(err, call.ErrForeign) {
		t.Errorf("a decision binds the log: %v", err)
	}
}

// TestConfirmedWithoutLookup: what the admitted tool cannot confirm is unknown, whatever a lookup has found.
func TestConfirmedWithoutLookup(t *testing.T) {
	t.Parallel()
	for lookup, want := range map[call.Lookup]envelope.Code{
		"": "", call.LookupYes: "", call.LookupNo: envelope.CodeToolUnknownState,
	} {
		s := claimed(t, lookup).state
		r := call.Decide(s, 1, s.Last().Admitted,
			call.Completion{Cause: call.Confirmed, By: call.ByExecutor, Nonce: "other.1", Output: "o"})
		hash := r.Event.State.Last().Decision.OutputHash
		if err := s.Allows(r.Event); r.Code != want || err != nil || want != "" && hash != "" {
			t.Errorf("lookup %q: %+v, %v", lookup, r, err)
		}
	}
}
