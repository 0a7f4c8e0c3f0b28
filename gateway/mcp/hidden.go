package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// deniedTime is how long a client with a wrong name waits for the record of its denial at most.
const deniedTime = time.Second

// maxDeniedInput is the largest input of a call that is denied by its name. The record has the hash of an empty input
// instead of a larger one.
const maxDeniedInput = 64 << 10

// isUnknown reports whether the error of a search for a tool means that the caller sees no tool of that name.
func isUnknown(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == jsonrpc.CodeInvalidParams
}

// recordDenied has a dispatcher deny a call by a name that the caller does not see, so that the denial is on record.
// The client gets the same answer whether that succeeds or not. The call is a dry run, because the tool may be visible
// by now.
func (a *asked) recordDenied(ctx context.Context) {
	c := a.call
	c.DryRun, c.Version, c.Key, c.Timeout = true, "", "", deniedTime
	c.Retry = &envelope.RetryPolicy{MaxAttempts: 1}
	_, _ = a.peer.client.Call(ctx, c)
}

// deniedInput returns the arguments as the input of a call that is denied by its name.
func deniedInput(arguments json.RawMessage) jsontext.Value {
	given, err := new(Definition).given(arguments)
	if err != nil || len(given) > maxDeniedInput {
		return jsontext.Value("{}")
	}
	return given
}

// asToolID returns a name as a tool id: in lower case, with _ for each character that no tool id has.
func asToolID(name string) string {
	id := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, strings.ToLower(name))
	if id == "" {
		return "_"
	}
	return id[:min(len(id), envelope.MaxToolID)]
}
