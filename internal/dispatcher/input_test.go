package dispatcher_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestLargeInput(t *testing.T) {
	sum := strings.Repeat("c", 64)
	for name, c := range map[string]struct {
		ref, data string
		want      envelope.Code
	}{
		"there":     {ref: "sha256:" + sum + ";7", data: `{"n":1}`},
		"invalid":   {ref: "sha256:" + sum + ";13", data: `{"n":1,"n":2}`, want: envelope.CodeMalformed},
		"inexact":   {ref: "sha256:" + sum + ";22", data: `{"n":9007199254740993}`, want: envelope.CodeSchema},
		"missing":   {ref: "sha256:" + strings.Repeat("d", 64) + ";7", want: envelope.CodeInputMissing},
		"damaged":   {ref: "sha256:" + sum + ";7", data: `{"n":`, want: envelope.CodeChecksum},
		"malformed": {ref: "x", want: envelope.CodeInputRef},
		"too large": {ref: "sha256:" + sum + ";99999999999", want: envelope.CodeLimit},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.payloads[sum] = []byte(c.data)
				in := w.request(1, `{"n":1}`, `null`)
				in.InputRef = c.ref
				w.d.Handle(t.Context(), in)
				synctest.Wait()
				if c.want == "" {
					if w.acceptedBy(1) != 1 {
						t.Errorf("not accepted: %+v", w.outcomes)
					}
					return
				}
				if got := w.outcome(1).Error.Code; got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A request that has an input and a reference to one would be judged by one of them, and the other be ignored.
func TestInputTwice(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		sum := strings.Repeat("c", 64)
		w.payloads[sum] = []byte(`{"n":1}`)
		in := w.request(1, `{"n":1}`, `{"n":1}`)
		in.InputRef = "sha256:" + sum + ";7"
		w.d.Handle(t.Context(), in)
		if e := w.outcome(1).Error; e.Code != envelope.CodeInputRef || !strings.Contains(e.Message, "both") {
			t.Errorf("got %+v", e)
		}
	})
}

// An input is inside a request or, from one byte more on, in the payload store.
func TestInlineInput(t *testing.T) {
	for size, want := range map[int]envelope.Code{envelope.MaxInline: "", envelope.MaxInline + 1: envelope.CodeLimit} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			input := `{"n":1` + strings.Repeat(" ", size-len(`{"n":1}`)) + `}`
			w.ask(1, `{"n":1}`, input)
			switch {
			case want == "" && w.acceptedBy(1) != 1:
				t.Errorf("%d bytes: not accepted: %+v", size, w.outcomes)
			case want != "" && w.outcome(1).Error.Code != want:
				t.Errorf("%d bytes: %+v", size, w.outcome(1).Error)
			}
		})
	}
}

// A payload store that is silent keeps nobody for ever, and what may be in it is not called missing.
func TestLargeInputWithoutAnswer(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.silent = true
		in := w.request(1, `{"n":1}`, `null`)
		in.InputRef = "sha256:" + strings.Repeat("c", 64) + ";7"
		w.d.Handle(t.Context(), in)
		if r := w.outcome(1); r.Error.Code != envelope.CodeUnavailable || r.Status != envelope.RetryableError {
			t.Errorf("got %+v", r.Error)
		}
	})
}

// Large inputs wait for each other: what requests refer to is a hundred thousand times larger than they are.
func TestManyLargeInputs(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.silent = true // holds each input until its time is over
		for n := range 6 {
			in := w.request(n, `{"n":1}`, `null`)
			in.InputRef = fmt.Sprintf("sha256:%s;%d", strings.Repeat("c", 64), envelope.MaxPayload)
			go w.d.Handle(t.Context(), in)
		}
		synctest.Wait()
		if n := len(w.refusals()); w.fetching.Load() != 1 || n != 0 {
			t.Errorf("%d of 64 MiB are fetched, %d requests refused at once", w.fetching.Load(), n)
		}
		pass(time.Minute)
		if w.fetching.Load() != 0 {
			t.Errorf("%d are fetched", w.fetching.Load())
		}
		told := map[envelope.Code]int{}
		for _, code := range w.refusals() {
			told[code]++
		}
		// Whoever waits has its turn, or hears that there is none, in the same instant in which the first give up.
		if told[envelope.CodeUnavailable] < 1 || told[envelope.CodeUnavailable]+told[envelope.CodeCapacity] != 6 {
			t.Errorf("told %v", told)
		}
		w.silent = false
		w.payloads[strings.Repeat("c", 64)] = []byte(`{"n":1}`)
		in := w.request(9, `{"n":1}`, `null`)
		in.InputRef = "sha256:" + strings.Repeat("c", 64) + ";7"
		w.d.Handle(t.Context(), in)
		synctest.Wait()
		if w.acceptedBy(9) != 1 {
			t.Errorf("not accepted afterwards: %+v", w.outcomes)
		}
	})
}

// A copy of a request, as clients send them until they have an outcome, has its input read and checked once, also where
// it waited for the room that its original took.
func TestCopiesOfLargeInput(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		sum := strings.Repeat("c", 64)
		w.payloads[sum] = []byte(`{"n":1}`)
		for range 3 {
			in := w.request(1, `{"n":1}`, `null`)
			in.InputRef = "sha256:" + sum + ";7"
			w.d.Handle(t.Context(), in)
		}
		synctest.Wait()
		if n := w.fetched.Load(); n != 1 || len(w.refusals()) != 0 {
			t.Errorf("the input was read %d times, refused: %v", n, w.refusals())
		}
		pass(2 * time.Minute)
		in := w.request(1, `{"n":1}`, `null`)
		in.InputRef = "sha256:" + sum + ";7"
		w.d.Handle(t.Context(), in)
		if n := w.fetched.Load(); n != 2 {
			t.Errorf("after two minutes it was read %d times: nothing is remembered for ever", n)
		}
	})
}

// Whoever has filled the payload store is refused further large inputs for a while, and told how long; not so the
// copies of what was taken in before.
func TestGreedyIsRefused(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		sum := strings.Repeat("c", 64)
		w.payloads[sum] = []byte(`{"n":1}`)
		ask := func(n int, ref string) {
			in := w.request(n, `{"n":1}`, `null`)
			in.InputRef = ref
			w.d.Handle(t.Context(), in)
		}
		ask(1, "sha256:"+sum+";7")
		var asked subjects.Owner
		w.d.OverQuota = func(of subjects.Owner) time.Duration { asked = of; return 3 * time.Second }
		ask(1, "sha256:"+sum+";7")
		if n := len(w.refusals()); n != 0 {
			t.Errorf("a copy was refused: %v", w.refusals())
		}
		w.payloads[strings.Repeat("d", 64)] = []byte(`{"n":2}`)
		ask(2, "sha256:"+strings.Repeat("d", 64)+";7")
		synctest.Wait()
		r := w.outcome(2)
		if r.Error == nil || r.Error.Code != envelope.CodeStoreFull || r.Error.Details.RetryAfterMS != 3000 {
			t.Errorf("told %+v", r)
		}
		if asked.Tenant == "" || asked.Actor == "" {
			t.Errorf("asked about %+v", asked)
		}
	})
}

// The same input is the same call, wherever it lies and however it is written.
func TestLargeInputIsTheSameCall(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		for n, text := range []string{`{"n":1}`, ` { "n" : 1 }`} {
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
			w.payloads[sum] = []byte(text)
			in := w.request(n+2, `{"n":1}`, `null`)
			in.InputRef = fmt.Sprintf("sha256:%s;%d", sum, len(text))
			w.d.Handle(t.Context(), in)
		}
		synctest.Wait()
		if len(w.refusals()) != 0 || w.acceptedBy(2)+w.acceptedBy(3) != 2 {
			t.Errorf("refused: %v", w.refusals())
		}
	})
}

// What never fits into the memory for inputs is refused for good, and the answer says what it would take.
func TestInputBeyondMemory(t *testing.T) {
	many := `{"n":[1` + strings.Repeat(",1", 50_000) + `]}`
	for name, c := range map[string]struct{ data, want string }{
		"bytes":          {`{"n":1` + strings.Repeat(" ", 1<<20) + `}`, "takes 3 MiB of memory, more than"},
		"decoded values": {many, "takes 5 MiB of memory, more than"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.memory = 2 << 20
				w.stop()
				w.run("d2")
				sum := strings.Repeat("c", 64)
				w.payloads[sum] = []byte(c.data)
				in := w.request(1, `{"n":1}`, `null`)
				in.InputRef = fmt.Sprintf("sha256:%s;%d", sum, len(c.data))
				w.d.Handle(t.Context(), in)
				r := w.outcome(1)
				if e := r.Error; e.Code != envelope.CodeLimit || !strings.Contains(e.Message, c.want) ||
					!strings.Contains(e.Fix, "--payload-memory") {
					t.Errorf("told %+v", r.Error)
				}
			})
		})
	}
}
