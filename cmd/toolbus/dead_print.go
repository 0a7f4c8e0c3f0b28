package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// shownLetter is a dead letter for output.
type shownLetter struct {
	deadletter.Message
	Replays []*deadletter.Retry `json:"replays,omitzero"` // oldest first
}

// againTime limits the search of the audit record for replays.
const againTime = 10 * time.Second

// lookAtLetters finds the replays of the letters. If that takes longer than againTime, it prints a message and returns
// the letters without replays.
func lookAtLetters(ctx context.Context, stderr io.Writer, from reader.Source,
	letters []deadletter.Message) ([]shownLetter, error) {
	looking, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	found, err := deadletter.Retries(looking, from, letters)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		fmt.Fprintf(stderr, "toolbus: the record is too long to find out in %s what was replayed\n", againTime)
		found, err = nil, nil
	}
	all := make([]shownLetter, len(letters))
	for i, d := range letters {
		all[i] = shownLetter{d, found[d.Seq]}
	}
	return all, err
}

// Write prints a dead letter as text.
func (d shownLetter) Write(out io.Writer) error {
	a, _ := d.State.Attempt(d.Attempt)
	var text strings.Builder
	fmt.Fprintf(&text, "dead letter %d of %s\n", d.Seq, d.Time.UTC().Format(time.RFC3339))
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, cli.EscapeCell(fmt.Sprintf(format, args...)))
	}
	line("cause", "%s: %s", d.Cause.Code, d.Cause.Message)
	line("effect", "%s", cmp.Or(string(d.Cause.Details.Effect), "-"))
	line("fix", "%s", d.Cause.Fix)
	line("tool", "%s %s, function %s", d.State.Tool, d.State.Version, cmp.Or(d.State.Fn, "-"))
	line("tenant", "%s", d.State.Tenant)
	line("ref", "%s", d.Ref)
	handed := fmt.Sprintf("handed out %d times", d.Deliveries)
	if c := a.Claim; c != nil {
		handed += fmt.Sprintf(", claimed %d times, last by %s", c.Count, c.By)
	}
	line("attempt", "%d, %s", d.Attempt, handed)
	for _, r := range d.Replays {
		line("replay", "%s: %s, as %s by %s in tenant %s", r.Time.UTC().Format(time.RFC3339), r.Became(), r.Ref,
			cmp.Or(r.By, r.Actor), r.Tenant)
	}
	body, req, err := askedFor(d.Message)
	if err == nil {
		line("actor", "%s", req.Context.ActorID)
		line("call id", "%s", req.CallID)
		line("key", "%s", req.Constraints.IdempotencyKey)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(&text, "\nwhat it asked for cannot be read: %v\n", err)
	} else {
		fmt.Fprintf(&text, "\n%s\n", shownInput(body.InputRef, req.Input))
	}
	_, err = fmt.Fprint(out, cli.EscapeText(text.String()))
	return err
}

// askedFor returns the request of a dead letter. If body has an InputRef, the input is a separate payload.
func askedFor(d deadletter.Message) (body call.RequestBody, req *envelope.Request, err error) {
	if body, err = call.DecodeRequestBody(d.Body); err != nil {
		return body, nil, err
	}
	req, refusal := envelope.DecodeRequest(envelope.ContentJSON, body.Request)
	if refusal != nil {
		return body, nil, errors.New(refusal.String())
	}
	return body, req, nil
}

// maxShownInput is the number of bytes of an input that are printed.
const maxShownInput = 4 << 10

// shownInput returns the input of a dead letter as text.
func shownInput(ref string, input jsontext.Value) string {
	if ref != "" {
		return "its input is too large for the letter: payload " + ref
	}
	text := input.Clone()
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return "its input cannot be read: " + err.Error()
	}
	if len(text) > maxShownInput {
		return "the beginning of its input (--json shows all):\n" + strings.ToValidUTF8(string(text[:maxShownInput]), "")
	}
	return "input:\n" + string(text)
}
