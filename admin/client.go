package admin

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Options say how an operator connects. The zero value is for a bus that asks for no tokens.
type Options struct {
	Name            string // that the server shows for the connection; default the name of the program
	CredentialsFile string // with the token of the operator, or the auditor; it is renewed there
	Tenant, Actor   string // of the operator on a bus that asks for no tokens; default those of toolbus.ClientOptions
	Timeout         time.Duration
	Logger          *slog.Logger  // what happens to the connection; nil discards
	NATS            []nats.Option // such as TLS
}

// Client makes the calls of operators and auditors. What dispatchers refuse is a [toolbus.Error]. Its methods are safe
// for concurrent use.
type Client struct {
	link *app.Link
	own  *client.Client
}

// Connect connects to the bus at url, one or more with commas between them; "" is [toolbus.DefaultURL]. It waits for a
// server until ctx ends at the latest. Close the client when done.
func Connect(ctx context.Context, url string, o Options) (*Client, error) {
	if url == "" {
		url = toolbus.DefaultURL
	}
	link, err := app.Establish(ctx, app.Options{URL: url, Logger: o.Logger, Connect: o.NATS}, app.LinkOptions{
		Name: o.Name, Credentials: o.CredentialsFile, Tenant: o.Tenant, Actor: o.Actor, Timeout: o.Timeout,
	})
	if err != nil {
		return nil, refused(err)
	}
	own, err := link.Client(client.Options{Tenant: o.Tenant, Actor: o.Actor})
	if err != nil {
		link.Close()
		return nil, err
	}
	return &Client{link, own}, nil
}

// refused returns err as a [toolbus.Error] if it is what the bus refused.
func refused(err error) error {
	if request, ok := errors.AsType[*client.Refusal](err); ok {
		return toolbus.NewError(request.Reason, nil)
	}
	if denied, ok := errors.AsType[envelope.Fault](err); ok { // by a dispatcher that reads for this client
		return toolbus.NewError(denied.Fault(), nil)
	}
	return err
}

// Close ends the connection.
func (c *Client) Close() error {
	err := c.own.Close()
	c.link.Close()
	return err
}

// The requests and responses of the calls of operators.
type (
	// IssueRequest says for whom a token is, and what it may do.
	IssueRequest = envelope.IssueRequest
	// Token is a token with its family, by which it is revoked.
	Token = envelope.TokenResponse
	// RevokeRequest says which credentials end.
	RevokeRequest = envelope.RevokeRequest
	// Revoked says how many credentials have ended.
	Revoked = envelope.RevokeResponse
	// Credential is a credential that was issued and has not ended.
	Credential = envelope.CredentialInfo
	// KeyRotation says which key tokens are signed with.
	KeyRotation = envelope.RotateResponse
)

// IssueToken makes the first token of a credential.
func (c *Client) IssueToken(ctx context.Context, r IssueRequest) (Token, error) {
	t, err := c.own.Issue(ctx, r)
	return t, refused(err)
}

// RevokeTokens ends credentials: within a second nothing that is done with them is admitted.
func (c *Client) RevokeTokens(ctx context.Context, r RevokeRequest) (Revoked, error) {
	a, err := c.own.Revoke(ctx, r)
	return a, refused(err)
}

// CredentialFilter selects credentials; "" selects all.
type CredentialFilter struct{ Tenant, Actor string }

// Credentials yields the credentials that were issued and have not ended, a page at a time. An error ends it.
func (c *Client) Credentials(ctx context.Context, f CredentialFilter) iter.Seq2[Credential, error] {
	return func(yield func(Credential, error) bool) {
		all, err := c.own.Credentials(ctx, envelope.CredentialsRequest{Tenant: f.Tenant, Actor: f.Actor})
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
		if err != nil {
			yield(Credential{}, refused(err))
		}
	}
}

// RotateKeys makes a new key that tokens are signed with. Tokens of former keys stay good until they expire; with
// distrust none is accepted any more from now on, and Token of the result replaces the one in the operator's
// CredentialsFile.
func (c *Client) RotateKeys(ctx context.Context, distrust bool) (KeyRotation, error) {
	a, err := c.own.RotateKeys(ctx, envelope.RotateRequest{Distrust: distrust})
	return a, refused(err)
}

// AuditFilter selects audit records; zero values select all. Times are in bus time.
type AuditFilter struct {
	Since, Until    time.Time
	Tenant          string
	Tool, Actor     string
	Run, Role, Lane string
	Call            string // reference, call id, or its first 8 characters or more
	Event           string // such as tool_executed, see docs/wire.md
	Status          envelope.Status
	Code            envelope.Code
	Last            int  // how many of the newest records that match; at most 65,536; 0 is all
	Follow          bool // go on with new records until ctx ends, or Until has passed
}

// AuditRecord is a record of the audit log.
type AuditRecord struct {
	Time                      time.Time
	Event                     string // such as tool_executed
	Tenant, Actor             string
	Tool, Function            string
	Ref, CallID               string
	Attempt                   int
	TraceID                   string
	ArgumentsHash, OutputHash string // SHA-256, in hexadecimal; inputs and outputs are not recorded
	Status                    envelope.Status
	Code                      envelope.Code
	Effect                    envelope.Effect
	DecidedBy                 string         // executor, deadline, canceller or dispatcher; "" if nothing was decided
	JSON                      jsontext.Value // the whole record, see docs/wire.md
}

// AuditRecords yields audit records, oldest first. An operator reads those of all tenants, an auditor those of its own.
// An error ends it.
func (c *Client) AuditRecords(ctx context.Context, f AuditFilter) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		from, err := c.own.Archive(ctx)
		if err != nil {
			yield(AuditRecord{}, refused(err))
			return
		}
		for r, err := range reader.Replay(ctx, from, reader.Filter{
			Since: f.Since, Until: f.Until, Tenant: f.Tenant, Tool: f.Tool, Actor: f.Actor, Run: f.Run, Role: f.Role,
			Lane: f.Lane, Call: f.Call, Event: audit.Event(f.Event), Status: f.Status, Code: f.Code, Last: f.Last,
			Follow: f.Follow,
		}) {
			var record AuditRecord
			if err == nil {
				record, err = recordOf(r)
			}
			if !yield(record, refused(err)) || err != nil {
				return
			}
		}
	}
}

func recordOf(r audit.Record) (AuditRecord, error) {
	text, err := json.Marshal(r)
	return AuditRecord{
		Time: r.Timestamp, Event: string(r.Event), Tenant: r.Tenant, Actor: r.Actor, Tool: r.ToolName, Function: r.Fn,
		Ref: r.Ref, CallID: r.CallID, Attempt: r.Attempt, TraceID: r.TraceID, ArgumentsHash: r.ArgumentsHash,
		OutputHash: r.OutputHash, Status: r.Status, Code: r.Code, Effect: r.Effect, DecidedBy: string(r.DecidedBy),
		JSON: text,
	}, err
}

// DeadLetter is a call that could not be run.
type DeadLetter struct {
	Seq        uint64 // by which it is called again, see [Client.RetryDeadLetter]
	Time       time.Time
	Tenant     string
	Tool, Ref  string
	CallID     string // of the request
	Attempt    int
	Deliveries int             // how often executors got it
	Cause      *envelope.Error // why it was given up
}

// DeadLetters returns the dead letters of all tenants, oldest first.
func (c *Client) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	from, err := c.own.Archive(ctx)
	if err != nil {
		return nil, refused(err)
	}
	letters, err := deadletter.DeadLetters(ctx, from)
	if err != nil {
		return nil, refused(err)
	}
	all := make([]DeadLetter, 0, len(letters))
	for _, l := range letters {
		a, _ := l.State.Attempt(l.Attempt)
		all = append(all, DeadLetter{
			Seq: l.Seq, Time: l.Time, Tenant: l.State.Tenant, Tool: l.State.Tool, Ref: l.Ref, CallID: a.Owner.CallID,
			Attempt: l.Attempt, Deliveries: l.Deliveries, Cause: l.Cause,
		})
	}
	return all, nil
}

// RetryDeadLetter has a dispatcher call again what a dead letter asked for, as the actor who called, and waits for the
// outcome until ctx ends. It returns the response of a success; another outcome is a [toolbus.Error]. The same seq and
// again always mean the same call: repeat it if the answer is lost. Another word in again, of at most 64 bytes, makes a
// further call. A large output is not fetched.
func (c *Client) RetryDeadLetter(ctx context.Context, seq uint64, again string) (*envelope.Response, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		a, err := c.own.Replay(ctx, envelope.ReplayRequest{Letter: seq, Again: again})
		switch r := a.Response; {
		case err != nil:
			return nil, refused(err)
		case r != nil && r.Status != envelope.Success:
			return nil, toolbus.NewError(r.Error, r)
		case r != nil:
			return r, nil
		}
		if !timer.Sleep(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// How long RetryDeadLetter waits before it asks again for the outcome.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)
