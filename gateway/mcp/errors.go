package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Codes of protocol errors of the gateway. They are HTTP status codes, outside of the range from -32768 to -32000 that
// JSON-RPC reserves.
const (
	codeDenied      = http.StatusUnauthorized
	codeCancelled   = 499 // the common non-standard status for a client that has gone
	codeUnavailable = http.StatusServiceUnavailable
)

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func internal(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf(format, args...)}
}

// unknown returns the error for an unknown tool. It suggests a similar name. searches means that the client's list of
// tools has nameSearch.
func unknown(name string, v *view, searches bool) error {
	names := make([]string, len(v.sorted))
	for i, d := range v.sorted {
		names[i] = d.Name
	}
	lists := "tools/list"
	if searches {
		lists += " or " + nameSearch
	}
	if name == "" {
		return invalid("params.name is missing, the name of the tool; %s has the names", lists)
	}
	if meant, ok := envelope.Nearest(name, names); ok {
		return invalid("unknown tool %.128q; did you mean %s?", name, meant)
	}
	return invalid("unknown tool %.128q; %s has those that there are", name, lists)
}

// codeOf returns the code of the protocol error for an error of the bus, or 0 if the error is a result for the model.
func codeOf(e *envelope.Error) int64 {
	switch e.Code {
	case envelope.CodeToolUnknown, envelope.CodeFnUnknown, envelope.CodeMalformed, envelope.CodeNotFound,
		envelope.CodeInputState:
		return jsonrpc.CodeInvalidParams
	case envelope.CodeToken, envelope.CodeExpired, envelope.CodeRevoked, envelope.CodeIdentity:
		return codeDenied
	}
	return 0
}

// failure returns an error of the bus as a protocol error.
func failure(code int64, e *envelope.Error) error {
	data, _ := json.Marshal(map[string]any{
		"code": e.Code, "fix": e.Fix, "effect": e.Details.Effect, "retry_after_ms": e.Details.RetryAfterMS,
	}) // of texts and numbers
	return &jsonrpc.Error{Code: code, Message: e.String(), Data: data}
}

// protocolError returns the protocol error for a call without an outcome, whose effect is unknown.
func protocolError(err error) error { return wireError(err, envelope.EffectUnknown) }

// unlisted is protocolError for a request that failed before its call was made, with effect none.
func unlisted(err error) error { return wireError(err, envelope.EffectNone) }

func wireError(err error, effect envelope.Effect) error {
	var ours *jsonrpc.Error
	var refused *toolbus.Error
	switch {
	case errors.As(err, &ours):
		return err
	case errors.As(err, &refused):
		code := codeOf(refused.Reason())
		if code == 0 {
			code = codeUnavailable
		}
		return failure(code, refused.Reason())
	case errors.Is(err, context.Canceled):
		return &jsonrpc.Error{Code: codeCancelled, Message: "the request was cancelled"}
	}
	return noAnswer(err, effect)
}

// askAgain is the back-off hint if the bus does not answer.
const askAgain = time.Second

func noAnswer(err error, effect envelope.Effect) error {
	data, _ := json.Marshal(map[string]any{
		"code": envelope.CodeTimeout, "effect": effect, "retry_after_ms": askAgain.Milliseconds(),
		"fix": "see whether the bus runs, and ask again",
	}) // of texts and numbers
	return &jsonrpc.Error{Code: codeUnavailable, Message: "the bus gives no answer: " + err.Error(), Data: data}
}

// isGone reports whether err means that the tool does not exist.
func isGone(err error) bool {
	refused, ok := errors.AsType[*toolbus.Error](err)
	return ok && refused.Code() == envelope.CodeToolUnknown
}
