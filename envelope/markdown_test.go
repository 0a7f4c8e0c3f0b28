package envelope

import (
	"bufio"
	"fmt"
	"io"
)

// writeErrorTable writes the documentation of the taxonomy as Markdown; docs/errors.md is its
// output.
func writeErrorTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, errorsIntro)
	for _, r := range Codes() {
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s | %s | %s | %s |\n",
			r.Code, r.Status, again(r), r.Effect, r.Message, r.LikelyCause, r.Fix)
	}
	fmt.Fprint(b, errorsElsewhere)
	for _, r := range Codes() {
		fmt.Fprintf(b, "| `%s` | %d | %s | `%s` | `%s` | %s |\n",
			r.Code, r.HTTPStatus, mcp(r), r.Gateway, r.Category, r.Severity)
	}
	fmt.Fprint(b, errorsOfTools)
	for _, class := range classes {
		r := Lookup(ToolErrorCode(class, "x"))
		fmt.Fprintf(b, "| `%s-*` | `%s` | %s | %d | `%s` | `%s` | %s |\n",
			class, r.Status, again(r), r.HTTPStatus, r.Gateway, r.Category, r.Message)
	}
	return b.Flush()
}

func again(r CodeInfo) string {
	switch {
	case r.AutoRetry:
		return fmt.Sprintf("yes, after %d ms", r.RetryAfterMS)
	case r.Status == RetryableError:
		return "only if asked to"
	}
	return "no"
}

func mcp(r CodeInfo) string {
	if r.MCP == 0 {
		return "`isError`"
	}
	return fmt.Sprint(r.MCP)
}

const errorsIntro = `# Errors

Generated from the table in ` + "`envelope/table.go`" + `; do not edit.

Every answer that is no success carries one of these codes. The prefix is the class and never changes its meaning. Each
code has exactly one status. *Effect* is what the code alone says; ` + "`details.effect`" + ` of an error may say more.
*Retried* says whether a client asks again on its own, with the same idempotency key, and after how long
unless the error names another ` + "`details.retry_after_ms`" + `. A client retries a call of a
side-effectful tool only if ` + "`provenance.not_started`" + ` is true.

A refusal is on record under ` + "`provenance.audit_event_id`" +
	`. One without it is the client's own: the request could not be sent. If the
effect of a call took place, *Fix* is replaced by: ` + FixApplied + `.

## Codes

| Code | Status | Retried | Effect | Meaning | Likely cause | Fix |
|---|---|---|---|---|---|---|
`

const errorsElsewhere = `
## The same codes elsewhere

*HTTP* is the status that the planned HTTP API will give; ` + "`toolbus gen openapi`" + ` describes it.
*MCP* is the JSON-RPC error code, or ` + "`isError`" + ` for a tool result that a model can react to.
*Gateway* is the error code of Tool Gateway v1.

| Code | HTTP | MCP | Gateway | Category | Severity |
|---|---|---|---|---|---|
`

const errorsOfTools = `
## Codes of tools

A tool names its own errors in its manifest. ` + "`fetch_failed`" + ` of class ` + "`R-UPSTREAM`" + ` is
` + "`R-UPSTREAM-FETCH_FAILED`" + ` on the wire, with ` + "`details.tool_code`" + ` ` + "`fetch_failed`" + `. What
holds for such a code is what holds for its class; a code of an unknown class counts as
` + "`S-TOOL-*`" + `. A tool fault is retried once; if it repeats, the next answer is ` + "`S-TOOL-002`" + `.

| Code | Status | Retried | HTTP | Gateway | Category | Meaning |
|---|---|---|---|---|---|---|
`
