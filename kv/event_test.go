package kv_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fill sets every field below v to a value of its own: what the coder forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é|;%\r\n\x7f", *n%3) + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	default:
		v.SetInt(int64(-*n))
	}
}

// fullEvent has a value in every field. What only the key says, and what the log has to allow, is as it may be.
func fullEvent(kind call.Kind) call.Event {
	var s call.State
	n := 0
	fill(reflect.ValueOf(&s).Elem(), &n)
	s.Partition, s.Seq, s.ID, s.More = 3, 0, "id", "|further|"+"members"
	for i := range s.Attempts {
		a := &s.Attempts[i]
		a.N, a.More, a.Claim.More, a.Decision.More = i+1, "|x", "||y", "|z|%3b"
		a.Step = 1 + i%3
		a.Owner.Reply = subjects.Answers(s.Tenant, a.Owner.Actor) + "word;1"
		a.Decision.By = call.ByExecutor
	}
	a, e := &s.Attempts[1], call.Event{Kind: kind, Attempt: 2, State: s}
	if kind != call.Decided {
		a.Decision = nil
	}
	switch kind {
	case call.Requested:
		a.Claim, e.Nonce = nil, a.Nonce
	case call.Claimed:
		a.Claim.Nonce = "exec|1.7"
		e.Nonce = a.Claim.Nonce
	case call.Decided:
		a.Decision.Status, a.Decision.Nonce = envelope.Success, "exec|1.8"
		e.Nonce = a.Decision.Nonce
	}
	return e
}

var kinds = []call.Kind{call.Requested, call.Joined, call.Claimed, call.Decided}

func TestEventKeepsEveryField(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for name, e := range map[string]call.Event{"full": fullEvent(kind), "typical": typicalEvent(kind),
			"long": longEvent(kind)} {
			raw := kv.EncodeEvent(e)
			if strings.ContainsAny(raw, "\r\n") || strings.TrimSpace(raw) != raw {
				t.Errorf("%s %s: %q is no header value", name, kind, raw)
			}
			got, err := kv.ParseEvent(kv.EventSubject(e), raw)
			if err != nil {
				t.Fatalf("%s %s: %v: %s", name, kind, err, raw)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, kind, diff)
			}
		}
	}
}

// longEvent has names that its key does not hold.
func longEvent(kind call.Kind) call.Event {
	e := typicalEvent(kind)
	long := strings.Repeat("spiffe://", 20)
	e.State.Tool, e.State.Version, e.State.Pool = "t"+long, "v"+long, "p"+long
	if a := e.State.Attempts[0]; a.Claim != nil {
		a.Claim.By = e.State.Pool + "/" + call.Instance(a.Claim.Nonce)
	}
	return e
}

// What is in the log stays readable: these are events as they were written when the form was new.
func TestEventForm(t *testing.T) {
	t.Parallel()
	for kind, want := range map[call.Kind]string{
		call.Requested: "3;f|default|echo||||1|86400|:LXonDC16JwwteicMLXonDC16JwwteicMLXonDC16Jww|@" +
			"LXonDC16JwwteicMLXonDC16JwwteicMLXonDC16Jww|.LXonDC16JwwteicMLXonDC16JwwteicMLXonDC16Jww;" +
			"a|e1a7bd37-ad10-4d7e-b28e-2830c7fa493b|agent://local|ou0yk9I3Hv5IpC8eIQyOV1.1|1|5d415971-e1b7-430a-8b5c-" +
			"87d7bb21d42b|||||d-1448a8c3.1||1795187658234|59999;",
	} {
		e := typicalEvent(kind)
		if got := kv.EncodeEvent(e); got != want {
			t.Errorf("%s is written as\n%s\nwant\n%s", kind, got, want)
		}
	}
}

// In which queue an attempt waits is said by the key of its request, and afterwards where its priority stands, as one
// that older builds do not know. Whatever is stored, what is read can be written again.
func TestQueueOfEvent(t *testing.T) {
	t.Parallel()
	e := typicalEvent(call.Requested)
	e.State.Attempts[0].Step = 3
	plain := kv.EncodeEvent(typicalEvent(call.Requested))
	if got := kv.EncodeEvent(e); got != plain || !strings.HasSuffix(kv.EventSubject(e), ".normal-behind.default") {
		t.Errorf("%s is written as %s", kv.EventSubject(e), got)
	}
	for _, queue := range []string{
		"normal-behind", "-behind", "urgent", "high-behind-behind", "low-second", "high-third",
	} {
		e := typicalEvent(call.Decided)
		e.State.Attempts[0].Priority = envelope.Priority(queue)
		raw := kv.EncodeEvent(e)
		got, err := kv.ParseEvent(kv.EventSubject(e), raw)
		if err != nil || got.State.Attempts[0].Queue() != queue || kv.EncodeEvent(got) != raw {
			t.Errorf("%s: %+v, %v, written again as %s", queue, got.State.Attempts, err, kv.EncodeEvent(got))
		}
	}
}

// A newer build's members come back as they were, wherever they are, and whatever this build changes.
func TestEventKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	e := typicalEvent(call.Decided)
	subject, raw := kv.EventSubject(e), kv.EncodeEvent(e)
	for _, record := range []string{"3;f", ";a", ";c", ";d"} {
		at := strings.Index(raw, record)
		end := at + len(record) + strings.IndexByte(raw[at+len(record):], ';')
		newer := raw[:end] + strings.Repeat("|", 20) + "new member" + raw[end:]
		newer = strings.ReplaceAll(newer, " ", "%20")
		got, err := kv.ParseEvent(subject, newer)
		if err != nil {
			t.Fatalf("%s: %v", record, err)
		}
		again, err := kv.ParseEvent(subject, kv.EncodeEvent(got))
		if diff := cmp.Diff(got, again); err != nil || diff != "" || !strings.Contains(kv.EncodeEvent(got), "|new%20member") {
			t.Errorf("%s: %v (-first +second):\n%s", record, err, diff)
		}
	}
}

// What another build wrote is never taken for something that does not count.
func TestEventOfAnotherBuild(t *testing.T) {
	t.Parallel()
	e := typicalEvent(call.Decided)
	subject, raw := kv.EventSubject(e), kv.EncodeEvent(e)
	for name, other := range map[string]string{
		"the next form": "4" + raw[1:], "a far one": "4711;whatever", "0.1": "1|o|1|1448a8c3-f283.1|default|",
		"the form before": "2" + raw[1:],
		"a further class": strings.Replace(raw, "|1|86400", "|9|86400", 1),
	} {
		_, err := kv.ParseEvent(subject, other)
		if _, ok := errors.AsType[*format.Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventRefusesWhatItDoesNotWrite(t *testing.T) {
	t.Parallel()
	e := typicalEvent(call.Decided)
	subject, raw := kv.EventSubject(e), kv.EncodeEvent(e)
	for name, bad := range map[string]string{
		"nothing": "", "no form": raw[1:], "cut": raw[:len(raw)-1], "more": raw + "x|",
		"no number":    strings.Replace(raw, "|86400|", "|one|", 1),
		"leading zero": strings.Replace(raw, "|86400|", "|086400|", 1), "zero": strings.Replace(raw, "|86400|", "|0|", 1),
		"half an escape":  strings.Replace(raw, "default", "defaul%4", 1),
		"needless escape": strings.Replace(raw, "default", "defaul%74", 1), "no facts": "3;" + raw[strings.Index(raw, "a|"):],
		"what the key says": strings.Replace(raw, "|default||1|86400", "|default|tool|1|86400", 1),
		"another claimer":   strings.Replace(raw, ";d|.9", ";d|other.9", 1),
	} {
		if _, err := kv.ParseEvent(subject, bad); err == nil {
			t.Errorf("%s: %q was read", name, bad)
		}
	}
	if _, err := kv.ParseEvent(strings.Replace(subject, ".o.", ".p.", 1), raw); err == nil {
		t.Error("an event was read from a key that is none")
	}
}

// Whoever may write to the log under its own name only can decide nothing that the log does not leave to it.
func TestEventThatTheLogDoesNotAllow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*call.Event){
		"a decision without a request": func(e *call.Event) { e.State.Attempts[0].Admitted = 0 },
		"a success of another's claim": func(e *call.Event) {
			e.State.Attempts[0].Decision.Effect = envelope.EffectNone
			e.State.Attempts[0].Decision.Status = envelope.TerminalError
		},
		"a success without a claim": func(e *call.Event) { e.State.Attempts[0].Claim = nil },
		"a success of a deadline":   func(e *call.Event) { e.State.Attempts[0].Decision.By = call.ByDeadline },
		"an effect known to a canceller": func(e *call.Event) {
			d := e.State.Attempts[0].Decision
			d.By, d.Status = call.ByCanceller, envelope.TerminalError
		},
		"a decision by nobody": func(e *call.Event) { e.State.Attempts[0].Decision.By = "" },
	} {
		e := typicalEvent(call.Decided)
		e.State.Class = call.SideEffectful
		a := &e.State.Attempts[0]
		a.Claim.Nonce, a.Claim.By = "other.1", "default/other"
		if _, err := kv.ParseEvent(kv.EventSubject(e), kv.EncodeEvent(e)); err != nil {
			t.Fatalf("a confirmed success is refused: %v", err)
		}
		change(&e)
		if _, err := kv.ParseEvent(kv.EventSubject(e), kv.EncodeEvent(e)); !errors.Is(err, call.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, kind := range kinds {
		for _, e := range []call.Event{typicalEvent(kind), fullEvent(kind), longEvent(kind)} {
			f.Add(kv.EventSubject(e), kv.EncodeEvent(e))
		}
	}
	f.Fuzz(func(t *testing.T, subject, raw string) {
		e, err := kv.ParseEvent(subject, raw)
		if err != nil {
			return
		}
		again, err := kv.ParseEvent(subject, kv.EncodeEvent(e))
		if err != nil {
			t.Fatalf("%q %q: %v", subject, raw, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Errorf("%q (-first +second):\n%s", raw, diff)
		}
	})
}

func typicalEvent(kind call.Kind) call.Event {
	hash := strings.Repeat("2d7a270c", 8)
	a := call.Attempt{
		N: 1, Nonce: "d-1448a8c3.1", At: 1795187658234, Deadline: 1795187718233, Priority: "normal",
		Owner: call.Owner{
			CallID: "e1a7bd37-ad10-4d7e-b28e-2830c7fa493b", Actor: "agent://local",
			Reply:       subjects.Answers("default", "agent://local") + "ou0yk9I3Hv5IpC8eIQyOV1.1",
			ContentType: "application/json", Trace: "5d415971-e1b7-430a-8b5c-87d7bb21d42b",
		},
	}
	e := call.Event{Kind: kind, Attempt: 1, State: call.State{Pinned: call.Pinned{
		Tenant: "default", Tool: "bench.echo0", ID: "tvvkpo628dl23u4k9tut9d554b2032h7", Fn: "echo", Version: "1.0.0",
		Digest: "sha256:" + hash, Class: call.Pure, Pool: "default", Fingerprint: envelope.ByArguments + hash, ArgsHash: hash,
		KeepSeconds: 86400,
	}}}
	switch kind {
	case call.Requested:
		e.Nonce = a.Nonce
	case call.Joined:
		a.Admitted, a.Joined = 1, []string{"2ac41bcd-4a0e-4c26-9b40-3c0f6e4b8c2c"}
	case call.Claimed, call.Decided:
		a.Admitted = 1
		a.Claim = &call.Claim{By: "default/e-4f4c4d84", Nonce: "e-4f4c4d84.8", Count: 1, At: a.At + 1}
		e.Nonce = a.Claim.Nonce
	}
	if kind == call.Decided {
		a.Claim.Fence = 2
		a.Decision = &call.Decision{
			Nonce: "e-4f4c4d84.9", Status: "success", Effect: "applied", By: call.ByExecutor, At: a.At + 2, Fence: 2,
			OutputHash: hash,
		}
		e.Nonce = a.Decision.Nonce
	}
	e.State.Attempts = []call.Attempt{a}
	return e
}

func BenchmarkEventEncode(b *testing.B) {
	e := typicalEvent(call.Decided)
	b.ReportAllocs()
	for b.Loop() {
		kv.EncodeEvent(e)
	}
}

func BenchmarkEventDecode(b *testing.B) {
	e := typicalEvent(call.Decided)
	subject, raw := kv.EventSubject(e), kv.EncodeEvent(e)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := kv.ParseEvent(subject, raw); err != nil {
			b.Fatal(err)
		}
	}
}
