package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// adviceTime is how long a command asks the bus about a call that has ended.
const adviceTime = time.Second

// largerTimeout is the advice in a fix for a call that had too little time.
const largerTimeout = "a larger timeout_ms"

// nameTimeout lets a fix that advises a larger timeout_ms name the flag instead, with the longest time that the tool
// gives if a dispatcher says it soon. Role is that of the call, or "".
func nameTimeout(ctx context.Context, g *global, c *toolbus.Client, role string, r *envelope.Response) {
	e := r.Error
	if g.json || e == nil || !strings.Contains(e.Fix, largerTimeout) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	longest := time.Duration(0)
	if r.Provenance.Final && !strings.Contains(e.Fix, "timeout_ms_max") { // else no dispatcher answered, or c knew it
		t, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: r.Provenance.ToolID, RoleID: role})
		if err == nil {
			longest = time.Duration(t.TimeoutMaxMS) * time.Millisecond
		}
	}
	had := time.Duration(r.Metrics.QueueMS+r.Metrics.DurationMS) * time.Millisecond
	e.WithFix(withTimeout(e.Fix, had, longest))
}

// withTimeout returns the fix for a call that had some time, of a tool that gives the longest time, which is 0 if it is
// not known. It advises no call that had nearly the longest time to take more: connecting took the rest.
func withTimeout(fix string, had, longest time.Duration) string {
	flag := "a longer --timeout"
	switch {
	case longest > 0 && had >= longest*9/10:
		return strings.Replace(fix, ", and with "+largerTimeout,
			fmt.Sprintf("; the tool gives no call more than %s, the timeout_ms_max of its manifest", timer.Text(longest)), 1)
	case longest > 0:
		flag += fmt.Sprintf(", at most %s, the timeout_ms_max of the tool", timer.Text(longest))
	}
	return strings.Replace(fix, largerTimeout, flag, 1)
}

// toOwner is the advice in a fix for a call whose tool has a fault.
const toOwner = "report it to the tool's owner"

// nameRepair lets the fix of an error say what the owner of a tool does, if the bus is the user's own `toolbus dev`.
func nameRepair(g *global, r *envelope.Response) {
	e := r.Error
	if g.json || e == nil {
		return
	}
	a, err := g.access()
	if err != nil || a.OwnTools() == "" {
		return
	}
	folder := quoted(a.OwnTools())
	if e.WithFix(withRepair(e, folder)); isOlder(e) && ofGo(a.OwnTools(), r.Provenance.ToolID) {
		e.WithFix(e.Fix + fmt.Sprintf("; if the program of the tool takes what was refused, its manifest in %s is older: "+
			"correct it, or write it again by `PROGRAM --manifest %[1]s` of a Go program with ToolMain", folder))
	}
}

// isOlder reports whether an error can mean that the manifest of a tool is older than its program. A name for which the
// error suggests a similar one is misspelt.
func isOlder(e *envelope.Error) bool {
	undeclared := func(v jsonschema.Violation) bool { return v.Rule == "additionalProperties" }
	misspelt := func(v jsonschema.Violation) bool { return suggests(v.Message) }
	switch all := e.Details.Violations; e.Code {
	case envelope.CodeFnUnknown:
		return !suggests(e.Message)
	case envelope.CodeSchema:
		return slices.ContainsFunc(all, undeclared) && !slices.ContainsFunc(all, misspelt)
	}
	return false
}

func suggests(text string) bool { return strings.Contains(text, "; did you mean ") }

// ofGo reports whether the program of a tool in a folder was built by Go. Only such a program may define its input.
// That of another one is defined by the manifest alone.
func ofGo(folder, id string) bool {
	set, _, err := tool.LoadEach(folder, process.Describe())
	if err != nil {
		return false
	}
	m, refusal := set.Get(id, "")
	if refusal != nil {
		return false
	}
	program, err := supervisor.Locate(m.Endpoint.(process.Endpoint).Command[0], m.Dir, "")
	if err == nil {
		_, err = buildinfo.ReadFile(program)
	}
	return err == nil
}

// withRepair returns the fix of an error for the owner of the tools in a folder.
func withRepair(e *envelope.Error, folder string) string {
	if !strings.Contains(e.Fix, toOwner) {
		return e.Fix
	}
	if before, after, ok := strings.Cut(e.Fix, toOwner+", with"); ok {
		return before + "mend the tool or its manifest as it says in" + after + "; `toolbus tools lint " + folder +
			"` checks its manifest"
	}
	fix := strings.Replace(e.Fix, toOwner, "mend the tool", 1)
	if e.Cause != "" {
		fix += "; the cause is above"
	}
	if e.Details.Stderr != "" {
		fix += "; what it wrote to standard error is below"
	}
	return fix
}

// nameKey lets the fix of an error with an unknown effect name the key that the tool was given.
func nameKey(r *envelope.Response, ref string) {
	if r.Error != nil {
		r.Error.WithFix(withToolKey(r.Error, ref))
	}
}

// withToolKey returns the fix of an error of the call with a reference, or "". The key of the caller is of no use to
// the owner of the tool, since a program gets another one.
func withToolKey(e *envelope.Error, ref string) string {
	key, err := subjects.ParseRef(ref)
	if err != nil || e.Retryable || e.Details.Effect != envelope.EffectUnknown {
		return e.Fix
	}
	return e.Fix + "; " + call.KnownAs(key.ID)
}

// sayWhyAgain prints why the last of several attempts was made. all holds the attempts that were accepted.
func sayWhyAgain(ctx context.Context, g *global, c *toolbus.Client, all []envelope.Accepted) {
	if g.json || len(all) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	before, last := all[len(all)-2], all[len(all)-1]
	a, err := c.State(ctx, envelope.CallRef{Ref: before.Ref, CallID: before.CallID})
	if err == nil && a.Response != nil && a.Response.Error != nil {
		e := a.Response.Error
		fmt.Fprintf(g.env.stderr, "attempt %d was made because attempt %d ended with %s: %s (--attempts 1 makes one only)\n",
			last.Attempt, before.Attempt, e.Code, e.Message)
	}
}
