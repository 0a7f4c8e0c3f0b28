package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
)

// outcomes checks P1: every outcome that a caller received is the stored one.
func outcomes(x *index) (found []Violation) {
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			if r.Provenance.Final && r.Provenance.Attempt > 0 {
				if says := x.judge(&a, r); says != "" {
					found = append(found, a.broken("%s", says))
				}
			}
		}
	}
	return found
}

// judge returns what is wrong with an outcome that a caller received, or "".
func (x *index) judge(a *Ask, r *envelope.Response) string {
	l, n := x.logs[a.Ref], r.Provenance.Attempt
	if l == nil {
		return "it was told an outcome, and there is no log"
	}
	if r.CallID != a.CallID {
		return "it was told the outcome of call " + r.CallID
	}
	_, at, bound := l.bound(a.CallID)
	switch {
	case bound && at != n:
		return fmt.Sprintf("it is bound to attempt %d and was told the outcome of attempt %d", at, n)
	case !bound && (!l.last.Final() || l.last.Last().N != n):
		return fmt.Sprintf("it is bound to no attempt and was told the outcome of attempt %d", n)
	}
	stored, err := l.outcome(n)
	if err != nil {
		return "it was told an outcome, but " + err.Error()
	}
	if a.MCP {
		r = unabridged(r, stored)
	}
	if diff := differ(stored, r, l.last); diff != "" {
		return fmt.Sprintf("it was told another outcome of attempt %d than is stored: %s", n, diff)
	}
	return ""
}

// unabridged returns an answer with the stored values of what MCP clients do not get. They get large outputs inline,
// which [inputs] checks.
func unabridged(r, stored *envelope.Response) *envelope.Response {
	whole := *r
	whole.Provenance.Fence = stored.Provenance.Fence
	if stored.Provenance.OutputRef != nil {
		whole.Output, whole.Provenance.OutputRef = stored.Output, stored.Provenance.OutputRef
	}
	return &whole
}

// differ returns the differences between an answer and the stored outcome.
func differ(stored, told *envelope.Response, s call.State) string {
	var diffs []string
	compare := func(what string, a, b any) {
		if a != b {
			diffs = append(diffs, fmt.Sprintf("%s is %v, stored is %v", what, b, a))
		}
	}
	attempt, _ := s.Attempt(told.Provenance.Attempt)
	compare("status", stored.Status, told.Status)
	compare("error", code(stored), code(told))
	compare("effect", effect(stored), effect(told))
	compare("output", canonical(stored.Output), canonical(told.Output))
	compare("output_ref", reference(stored), reference(told))
	compare("fence", stored.Provenance.Fence, told.Provenance.Fence)
	if d := attempt.Decision; d != nil {
		compare("audit_event_id", s.At(d.Seq).EventID(), told.Provenance.AuditEventID)
		compare("logged status", d.Status, told.Status)
		compare("logged error", d.Code, code(told))
	}
	return strings.Join(diffs, "; ")
}

func code(r *envelope.Response) envelope.Code {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func effect(r *envelope.Response) envelope.Effect {
	if r.Error == nil {
		return envelope.EffectApplied
	}
	return r.Error.Details.Effect
}

func reference(r *envelope.Response) string {
	if ref := r.Provenance.OutputRef; ref != nil {
		return ref.SHA256
	}
	return ""
}

func canonical(v jsontext.Value) string {
	c := slices.Clone(v)
	if c.Canonicalize() != nil {
		return string(v)
	}
	return string(c)
}

// refused reports whether the answer is a refusal: final, and without an attempt.
func refused(r *envelope.Response) bool {
	return r.Provenance.Final && r.Provenance.Attempt == 0 && r.Error != nil
}

// turnedDown reports whether a dispatcher refused the request, for good or temporarily. Answers of the client library
// itself have no audit event id and are not final.
func turnedDown(r *envelope.Response) bool {
	return refused(r) || r.Provenance.Attempt == 0 && r.Error != nil && r.Provenance.AuditEventID != ""
}

// refusals checks P1. A refusal leaves no log, so the same call may be repeated and then be admitted. But a call that
// is bound to an attempt has the outcome of that attempt, and must not be refused.
func refusals(x *index) (found []Violation) {
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			if !refused(r) || code(r) == envelope.CodeKeyReused {
				continue
			}
			if len(a.Accepted) > 0 && !a.Copies {
				found = append(found, a.broken("it was accepted, and refused with %s", code(r)))
				continue
			}
			if l := x.logs[a.Ref]; l != nil {
				if e, n, ok := l.bound(a.CallID); ok && e.Time.Before(a.Sent) {
					found = append(found, a.broken("it was refused with %s after it had been bound to attempt %d", code(r), n))
				}
			}
		}
	}
	return found
}

// inputs checks P3: a key is refused if its input differs from the one that opened the log.
func inputs(x *index) (found []Violation) {
	for _, a := range x.Asks {
		l := x.logs[a.Ref]
		for _, r := range a.Answers {
			reused := code(r) == envelope.CodeKeyReused
			switch {
			case l == nil && reused:
				found = append(found, a.broken("its key is said to be reused, and there is no log"))
			case l == nil || !r.Provenance.Final:
			case reused && a.same(l):
				found = append(found, a.broken("it was refused for another input, and its input is the same"))
			case !reused && r.Provenance.Attempt > 0 && !a.same(l):
				found = append(found, a.broken("it has another input than its key, and was answered with %s", r.Status))
			case r.Status == envelope.Success && r.Provenance.OutputRef == nil && !a.made(r):
				found = append(found, a.broken("its input is %d, and the output %s is of another", a.N, r.Output))
			}
		}
	}
	return found
}

// made reports whether the output was made from the input of the ask.
func (a *Ask) made(r *envelope.Response) bool {
	var out effects.Output
	return json.Unmarshal(r.Output, &out) == nil && out.N == a.N
}

// Limits of P2.
const (
	grace = 100 * time.Millisecond
	exact = 20 * time.Millisecond // callers whose control timers were later are not judged
)

// deadlines checks P2. An answer may be late by as much as the control timers were late.
func deadlines(x *index) (found []Violation) {
	for _, a := range x.Asks {
		late := a.Done.Sub(a.Due)
		switch {
		case len(a.Answers) == 0 && (a.Unsent == "" || len(a.Accepted) > 0):
			found = append(found, a.broken("it has no answer, not even a local one: %s", a.Unsent))
		case late-a.stalled() > grace && a.Judged():
			found = append(found, a.broken("it had its answer %s after its deadline (control timers were %s late)",
				late.Round(time.Millisecond), a.stalled()))
		}
	}
	return found
}

// Calm is the scene of a request that was made after all faults had ended. It must get an outcome.
const Calm = "calm"

// said describes the first answer that the caller received.
func (a *Ask) said() string {
	if len(a.Answers) == 0 {
		return "no answer, " + cmp.Or(a.Unsent, "and no error")
	}
	r := a.Answers[0]
	if r.Error == nil {
		return fmt.Sprintf("%s after %s", r.Status, a.Done.Sub(a.Sent).Round(time.Millisecond))
	}
	return fmt.Sprintf("%s, %s: %s, after %s, accepted %d times", r.Status, r.Error.Code, r.Error.Message,
		a.Done.Sub(a.Sent).Round(time.Millisecond), len(a.Accepted))
}

// kept checks P5: accepted calls are in the log, and every attempt has an outcome.
func kept(x *index) (found []Violation) {
	for _, a := range x.Asks {
		if a.Scene == Calm && (len(a.Answers) == 0 || !a.Answers[0].Provenance.Final) && a.Judged() {
			found = append(found, a.broken("no outcome, with everything up: %s", a.said()))
		}
		for _, accepted := range a.Accepted {
			l := x.logs[a.Ref]
			if l == nil || accepted.Ref != a.Ref {
				found = append(found, a.broken("it was accepted as %s and is not in the log", accepted.Ref))
				continue
			}
			if _, n, ok := l.bound(a.CallID); !ok || n != accepted.Attempt {
				found = append(found, a.broken("it was accepted for attempt %d, and is bound to %d", accepted.Attempt, n))
			}
		}
	}
	for _, l := range x.sorted() {
		for _, n := range l.last.Attempts {
			if n.Open() {
				found = append(found, l.broken("attempt %d (call %s) has no outcome", n.N, n.Owner.CallID))
			}
		}
	}
	return found
}

// chunks checks the chunks that streaming callers received.
func chunks(x *index) (found []Violation) {
	for _, a := range x.Asks {
		if says := strand(a.Chunks); says != "" {
			found = append(found, a.broken("%s", says))
			continue
		}
		for _, r := range a.Answers {
			if says := a.whole(r); says != "" {
				found = append(found, a.broken("%s", says))
			}
		}
	}
	return found
}

// strand returns what is wrong with the sequence of chunks, or "".
func strand(chunks []envelope.Chunk) string {
	var fence uint64
	var next int64
	for _, c := range chunks {
		if c.Fence != fence {
			fence, next = c.Fence, 0 // another run, which makes earlier chunks void
		}
		if c.Index != next {
			return fmt.Sprintf("chunk %d of run %d came where %d was due", c.Index, c.Fence, next)
		}
		next++
		var data effects.Chunk
		if err := json.Unmarshal(c.Data, &data); err != nil {
			return fmt.Sprintf("chunk %d of run %d holds %s", c.Index, c.Fence, c.Data)
		}
		run, _, _ := strings.Cut(data.Run, "/")
		if int64(data.I) != c.Index || run != fmt.Sprint(c.Fence) {
			return fmt.Sprintf("chunk %d of run %d was emitted as chunk %d of run %s", c.Index, c.Fence, data.I, data.Run)
		}
	}
	return ""
}

// whole returns what is missing from the chunks that an outcome names, or "".
func (a *Ask) whole(r *envelope.Response) string {
	want := r.Provenance.Chunks
	if !a.Streamed || r.Status != envelope.Success || want == nil {
		return ""
	}
	got := int64(0) // since the last change of the run
	for _, c := range a.Chunks {
		if got++; c.Index == 0 {
			got = 1
		}
	}
	if n := len(a.Chunks); n > 0 && a.Chunks[n-1].Fence != r.Provenance.Fence {
		got = 0
	}
	if got != want.Count {
		return fmt.Sprintf("its outcome names %d chunks of run %d, and %d came", want.Count, r.Provenance.Fence, got)
	}
	return ""
}

// cancels checks the answers to cancel requests.
func cancels(x *index) (found []Violation) {
	for _, c := range x.Cancels {
		if says := x.cancelled(c); says != "" {
			found = append(found, Violation{Ref: c.Ref, CallID: c.CallID,
				Says: fmt.Sprintf("a cancel told %q: %s", c.Told, says)})
		}
	}
	return found
}

func (x *index) cancelled(c Cancel) string {
	l := x.logs[c.Ref]
	if c.Failed != "" || c.Told == "detached" {
		return ""
	}
	if l == nil {
		return "there is no log"
	}
	_, n, ok := l.bound(c.CallID)
	a, _ := l.last.Attempt(n)
	if !ok || a.Decision == nil {
		return "the call has no outcome"
	}
	byCancel := a.Decision.By == call.ByCanceller
	switch {
	case c.Told != "decided" && !byCancel:
		return "the outcome is of the " + string(a.Decision.By)
	case c.Told == "queued" && l.last.Class == call.SideEffectful && len(x.startsOf(c.Ref, n)) > 0:
		return "its tool was started all the same"
	}
	if c.Response == nil {
		return "no outcome was told"
	}
	stored, err := l.outcome(n)
	if err != nil {
		return err.Error()
	}
	return differ(stored, c.Response, l.last)
}

func (x *index) startsOf(ref string, attempt int) []effects.Line { return of(x.starts[ref], attempt) }
func (x *index) doneOf(ref string, attempt int) []effects.Line   { return of(x.done[ref], attempt) }

func of(lines []effects.Line, attempt int) (some []effects.Line) {
	for _, l := range lines {
		if l.Attempt == attempt {
			some = append(some, l)
		}
	}
	return some
}
