package toolbus

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
)

// What calls are made of and end in; package envelope has the rest of it.
type (
	Accepted    = envelope.Accepted
	Chunk       = envelope.Chunk
	Context     = envelope.RequestContext
	Response    = envelope.Response
	RetryPolicy = envelope.RetryPolicy
	Status      = envelope.Status
	CallQuery   = envelope.CallRef // names a call by the reference that its acceptance gave
	AuditFilter = reader.Filter    // the zero value fits every record
)

// The four outcomes of a call.
const (
	Success        = envelope.Success
	RetryableError = envelope.RetryableError // the same call may be made again, with the same key
	TerminalError  = envelope.TerminalError  // the same call would end the same way
	InvalidRequest = envelope.InvalidRequest // so would this one: it was never run
)

// Failure is the outcome of a call that is no success, as an error of Go. errors.Is finds the [ToolError] in it that
// the tool returned, if it did.
type Failure struct{ Response *Response }

// Error implements error.
func (f *Failure) Error() string { return inFull(f.Response.Error) }

// Key returns the idempotency key of the call. The same call with this key asks again, or runs the next attempt after a
// [RetryableError]; it never makes a second effect. It is "" for a call with a stable key that could not be sent.
func (f *Failure) Key() string { return f.Response.Key }

// Is reports whether target is the [ToolError] that the tool returned.
func (f *Failure) Is(target error) bool {
	declared, ok := target.(*ToolError)
	return ok && declared.Name == f.Response.Error.Details.ToolCode
}

// Invoke is [Client.Call] with values of Go: it encodes in as the input, as [Add] says, and decodes the output. An
// outcome that is no success is a [Failure].
//
//	text, err := toolbus.Invoke[string](ctx, client, toolbus.Call{Tool: "greet"}, Person{Name: "Ada"})
func Invoke[Out any](ctx context.Context, c *Client, call Call, in any) (out Out, err error) {
	if call.Input, err = json.Marshal(in, asJSON); err != nil {
		return out, fmt.Errorf("encode the input: %w", err)
	}
	resp, err := c.Call(ctx, call)
	if err != nil {
		return out, err
	}
	if resp.Status != Success {
		return out, &Failure{resp}
	}
	if err := json.Unmarshal(resp.Output, &out, asJSON, json.RejectUnknownMembers(false)); err != nil {
		return out, &callError{fmt.Errorf("decode the output: %w", err), resp.Key}
	}
	return out, nil
}

// Audit yields the records of what happened to calls of the client's tenant, oldest first, as [reader.Replay] does. A
// filter may name no other tenant. Whoever may not read the streams AUDIT and DENIED, which are of all tenants, asks
// dispatchers, which answer auditors and operators.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		if f.Tenant = cmp.Or(f.Tenant, c.Tenant); f.Tenant != c.Tenant {
			yield(audit.Record{}, fmt.Errorf("a client of tenant %q reads no record of %q", c.Tenant, f.Tenant))
			return
		}
		from, err := c.Archive(ctx)
		if err != nil {
			yield(audit.Record{}, err)
			return
		}
		reader.Replay(ctx, from, f)(yield)
	}
}

// Archive returns where operators read the record and the dead letters of all tenants, and auditors those of theirs.
func (c *Client) Archive(ctx context.Context) (reader.Source, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return reader.Open(ctx, js, c.inbox), nil
}
