package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// scene is one line of the demo. play returns an error if the result is not as expected.
type scene struct {
	title string
	play  func(context.Context, *stage) (told, error)
}

// told is the text of a line.
type told struct {
	outcome  string
	happened string
	notes    []string
}

func (t *told) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// scenes returns the scenes in order. replayed uses the call of joined, and trail the call of takenOver.
func scenes() []scene {
	return []scene{
		{"a page is fetched", fetched},
		{"a transcript streams", streamed},
		{"a duplicate joins", joined},
		{"a repeat is replayed", replayed},
		{"bad input is refused", refused},
		{"a deadline kills a tree", killed},
		{"an executor is killed", takenOver},
		{"a call is cancelled", cancelled},
	}
}

// fetched calls the shipped tool web.fetch for an article on the local site.
func fetched(ctx context.Context, s *stage) (t told, err error) {
	r, err := toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{Tool: fetchTool,
		Input: input(map[string]any{"url": s.site.url()})}))
	if err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	var page struct {
		Title string `json:"title"`
		Text  string `json:"clean_text"`
	}
	if err := decode(r, &page); err != nil {
		return t, err
	}
	t.happened = fmt.Sprintf("%q: %d words out of %d kB of HTML", page.Title, len(strings.Fields(page.Text)),
		len(article)>>10)
	return t, errors.Join(
		should(strings.Contains(page.Text, articleSays), "the text of the article"),
		should(!strings.Contains(page.Text, articleChaff), "nothing but the text of the article"))
}

// streamed calls the shipped tool transcript.clean, which streams while it works.
func streamed(ctx context.Context, s *stage) (t told, err error) {
	text := captions()
	var reports, paragraphs int
	var first time.Duration
	began := time.Now()
	r, err := toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{
		Tool: cleanTool, Input: input(map[string]any{"text": text}),
		OnChunk: func(c envelope.Chunk) error {
			switch {
			case reports+paragraphs == 0:
				first = time.Since(began)
			case c.Kind == envelope.ChunkProgress:
				s.Show.Status(fmt.Sprintf("a transcript streams: %s", c.Data))
			}
			if c.Kind == envelope.ChunkProgress {
				reports++
				return nil
			}
			paragraphs++
			return nil
		},
	}))
	if err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	var clean struct {
		Text string `json:"clean_text"`
	}
	if err := decode(r, &clean); err != nil {
		return t, err
	}
	t.happened = fmt.Sprintf("%d kB of captions became %d kB of text", len(text)>>10, len(clean.Text)>>10)
	t.note("%d paragraphs and %d progress reports came while it ran, the first after %d ms", paragraphs, reports,
		first.Milliseconds())
	return t, errors.Join(
		should(reports > 0, "reports of progress"), should(paragraphs > 1, "paragraphs while it runs"),
		should(!strings.Contains(clean.Text, "-->"), "text without timings"))
}

// joined makes two calls of two agents with one key. The tool runs once, and both get the same outcome.
func joined(ctx context.Context, s *stage) (t told, err error) {
	call := toolbus.Call{
		Tool: sleeperTool, Function: "nap", Input: input(map[string]any{"ms": 1000}),
		Key: "demo-duplicate-" + s.site.base, KeyScope: envelope.ScopeGlobal,
	}
	s.memory.duplicate = call
	accepted := make(chan struct{})
	call.OnAccepted = func(envelope.Accepted) { close(accepted) }
	var first *envelope.Response
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { first, failed = toolbus.Outcome(s.callers[ada].Call(ctx, call)) })
	select {
	case <-accepted:
	case <-ctx.Done():
	}
	var joined bool
	call.OnAccepted = func(a envelope.Accepted) { joined = a.Joined }
	second, err := toolbus.Outcome(s.callers[bob].Call(ctx, call))
	wg.Wait()
	if err := errors.Join(failed, err); err != nil {
		return t, err
	}
	t.outcome = outcome(first) + ", twice"
	var one, other napped
	if err := errors.Join(decode(first, &one), decode(second, &other)); err != nil {
		return t, err
	}
	s.memory.run = one.Run
	t.happened = "ada and bob used one key: one execution, one outcome for both"
	t.note("both were told run %s of executor %s, fence %d", one.Run[:8], one.Executor, first.Provenance.Fence)
	return t, errors.Join(should(joined, "bob joined"),
		should(one == other, "the same run for both, not %v and %v", one, other))
}

// replayed repeats the call of joined after its end. The dispatcher answers from the log.
func replayed(ctx context.Context, s *stage) (t told, err error) {
	r, err := toolbus.Outcome(s.callers[bob].Call(ctx, s.memory.duplicate))
	if err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	var again napped
	if err := decode(r, &again); err != nil {
		return t, err
	}
	t.happened = "the same key a third time: the stored outcome, nothing ran"
	return t, errors.Join(
		should(r.Provenance.Replayed, "an outcome marked as replayed"),
		should(again.Run == s.memory.run, "run %s, not %s", s.memory.run, again.Run))
}

// refused makes a call with invalid input. The answer lists all violations.
func refused(ctx context.Context, s *stage) (t told, err error) {
	r, err := toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{
		Tool: fetchTool, Input: input(map[string]any{"urls": []string{"a", "b"}, "include_raw_html": "yes"}),
	}))
	if err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	if r.Error == nil {
		return t, should(false, "a refusal")
	}
	for _, v := range r.Error.Details.Violations {
		t.note("%s: %s", v.Pointer, v.Message)
	}
	t.happened = fmt.Sprintf("%d violations at once, before anything was sent", len(t.notes))
	return t, errors.Join(
		should(r.Status == envelope.InvalidRequest, "an invalid_request"), should(len(t.notes) == 3, "three violations"))
}

// busy is the extra time after the deadline that a busy machine may take, in addition to the promised 100 ms and the
// delay of timers.
const busy = 200 * time.Millisecond

// killed calls a tool that starts a child in another session and does not end. At the deadline, both processes are
// killed.
func killed(ctx context.Context, s *stage) (t told, err error) {
	var at started
	const timeout = 1500 * time.Millisecond // includes the start of two processes
	watch := timertest.StartStallMeter()
	defer watch.End()
	began := time.Now()
	r, err := toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{
		Tool: sleeperTool, Function: "orphan", Input: input(map[string]any{"ms": 0}), Timeout: timeout,
		Key:     "demo-deadline-" + s.site.base,
		Retry:   &envelope.RetryPolicy{MaxAttempts: 1},
		OnChunk: func(c envelope.Chunk) error { return json.Unmarshal(c.Data, &at) },
	}))
	if err != nil {
		return t, err
	}
	late := time.Since(began) - timeout
	excused := 100*time.Millisecond + busy + watch.Late()
	t.outcome = outcome(r)
	left := survivors(ctx, at.PIDs)
	t.happened = fmt.Sprintf("deadline %s: the tool and its child in a session of its own are gone", timeout)
	t.note("processes %v on executor %s: none left; the answer came %d ms after the deadline", at.PIDs, at.Executor,
		late.Milliseconds())
	return t, errors.Join(
		should(late < excused, "an answer within 100 ms of the deadline, not %s", late),
		should(code(r) == envelope.CodeTimeout, "a timeout"),
		should(len(at.PIDs) == 2, "two processes, not %v", at.PIDs), should(len(left) == 0, "no process left, not %v", left))
}

// takenOver kills an executor with SIGKILL while it runs a call. The other executor runs the call again.
func takenOver(ctx context.Context, s *stage) (t told, err error) {
	var runs []started
	var fences []uint64
	r, err := toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{
		Tool: sleeperTool, Function: "nap", Input: input(map[string]any{"ms": 1000}), Key: "demo-takeover-" + s.site.base,
		OnAccepted: func(a envelope.Accepted) { s.memory.moved = a.Ref },
		OnChunk: func(c envelope.Chunk) error {
			var at started
			if err := json.Unmarshal(c.Data, &at); err != nil {
				return err
			}
			runs, fences = append(runs, at), append(fences, c.Fence)
			if len(runs) == 1 {
				s.executors[at.Executor].kill()
			}
			return nil
		},
	}))
	if err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	var end napped
	if err := decode(r, &end); err != nil {
		return t, err
	}
	if len(runs) != 2 {
		return t, should(false, "two runs, not %d", len(runs))
	}
	left := survivors(ctx, runs[0].PIDs)
	t.happened = fmt.Sprintf("executor %s got SIGKILL in mid-call; executor %s ran it again", runs[0].Executor,
		end.Executor)
	t.note("still attempt %d; fence %d became %d, so nothing of the first run can count; its tool is gone too",
		r.Provenance.Attempt, fences[0], fences[1])
	return t, errors.Join(
		should(end.Executor != runs[0].Executor, "another executor"), should(r.Provenance.Attempt == 1, "one attempt"),
		should(fences[1] > fences[0], "a higher fence"), should(len(left) == 0, "no process of the first run, not %v", left))
}

// cancelled cancels a running call. The caller learns that it was running.
func cancelled(ctx context.Context, s *stage) (t told, err error) {
	var ref string
	var at started
	running := make(chan struct{})
	var r *envelope.Response
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		r, failed = toolbus.Outcome(s.callers[ada].Call(ctx, toolbus.Call{
			Tool: sleeperTool, Function: "nap", Input: input(map[string]any{"ms": 60_000}), Key: "demo-cancel-" + s.site.base,
			OnAccepted: func(a envelope.Accepted) { ref = a.Ref },
			OnChunk: func(c envelope.Chunk) error {
				defer close(running)
				return json.Unmarshal(c.Data, &at)
			},
		}))
	})
	select {
	case <-running:
	case <-ctx.Done():
	}
	answer, err := s.callers[ada].Cancel(ctx, envelope.CallRef{Ref: ref})
	wg.Wait()
	if err := errors.Join(err, failed); err != nil {
		return t, err
	}
	t.outcome = outcome(r)
	left := survivors(ctx, at.PIDs)
	t.happened = fmt.Sprintf("it was %s; its process is gone", answer.Phase)
	why, err := s.callers[ada].Why(ctx, envelope.CallRef{Ref: ref})
	t.note("why: %s", why)
	return t, errors.Join(err,
		should(answer.Phase == "running", "told that it was running, not %q", answer.Phase),
		should(code(r) == envelope.CodeCancelled, "a cancellation"), should(len(left) == 0, "no process left, not %v", left))
}

// input encodes the input of a call.
func input(v map[string]any) jsontext.Value {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: strings, numbers and lists of them
	}
	return raw
}

// decode decodes the output of a success.
func decode(r *envelope.Response, into any) error {
	if r.Status != envelope.Success {
		return fmt.Errorf("should be: success, not %s", r.Error)
	}
	return json.Unmarshal(r.Output, into)
}

// outcome describes the outcome of a call in a few words.
func outcome(r *envelope.Response) string {
	text := string(r.Status)
	if r.Error != nil {
		text += " " + string(r.Error.Code)
	}
	if r.Provenance.Replayed {
		text += ", replayed"
	}
	return text
}

func code(r *envelope.Response) envelope.Code {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// survivors waits up to 2 s for processes to end, and returns those that did not. A guardian may decide the outcome of
// a call while its executor is still killing the tool.
func survivors(ctx context.Context, pids []int) (left []int) {
	for range 200 {
		left = nil
		for _, pid := range pids {
			if !gone(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 || !timer.Sleep(ctx, 10*time.Millisecond) {
			break
		}
	}
	return left
}
