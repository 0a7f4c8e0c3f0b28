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
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Options configures the connection of an operator or auditor. The zero value suits a bus without tokens.
type Options struct {
	Name            string        // connection name that the NATS server shows; default: base name of os.Args[0]
	CredentialsFile string        // file with the operator's or auditor's token, which the client renews and replaces
	Tenant, Actor   string        // identity on a bus without tokens; default as in toolbus.ClientOptions
	Timeout         time.Duration // for each server to accept the connection; default 5 s
	Logger          *slog.Logger  // logs losses, reconnects and errors of the connection; nil discards
	NATS            []nats.Option // further options of the connection, such as nats.Secure
}

// Client sends the requests of operators and auditors to dispatchers. Make one with [Connect]. If a dispatcher refuses
// a request, the error is a [toolbus.Error]. Its methods are safe for concurrent use.
type Client struct {
	link *link.Link
	own  *client.Client
}

// Connect connects to the bus at url, one or more URLs separated by commas; "" is [toolbus.DefaultURL]. It waits for a
// server until ctx ends. Close the client when done.
func Connect(ctx context.Context, url string, o Options) (*Client, error) {
	if url == "" {
		url = toolbus.DefaultURL
	}
	l, err := link.Establish(ctx, link.Options{
		URL: url, Name: o.Name, Logger: o.Logger, Connect: o.NATS, Credentials: o.CredentialsFile, Timeout: o.Timeout,
		Tenant: o.Tenant, Actor: o.Actor,
	})
	if err != nil {
		return nil, refused(err)
	}
	own, err := l.Client(client.Options{Tenant: o.Tenant, Actor: o.Actor})
	if err != nil {
		l.Close()
		return nil, err
	}
	return &Client{l, own}, nil
}

// refused returns err as a [toolbus.Error] if a dispatcher refused the request, and otherwise as it is.
func refused(err error) error {
	if request, ok := errors.AsType[*operation.Refusal](err); ok {
		return toolbus.NewError(request.Reason, nil)
	}
	if denied, ok := errors.AsType[envelope.Fault](err); ok { // from a dispatcher that reads a stream for this client
		return toolbus.NewError(denied.Fault(), nil)
	}
	return err
}

// ask sends a request for an operation.
func ask[Q, A any](ctx context.Context, c *Client, op operation.Operation[Q, A], q Q) (A, error) {
	a, err := client.Ask(ctx, c.own, op, q)
	return a, refused(err)
}

// archive returns where this operator or auditor may read the record and the dead letters, until done is called.
func (c *Client) archive(ctx context.Context) (from reader.Source, done func(), err error) {
	return reader.OpenAs(ctx, c.link.JS, c.own.Tenant, c.own.Actor, c.own.Token)
}

// Close closes the client and its connection. Do not use the client afterwards.
func (c *Client) Close() error {
	err := c.own.Close()
	c.link.Close()
	return err
}

// Requests and responses of the methods of [Client].
type (
	// IssueRequest holds the tenant, actor, role, rights and lifetime of a new token.
	IssueRequest = envelope.IssueRequest
	// Token is a signed token, with its expiry and the family by which it can be revoked.
	Token = envelope.TokenResponse
	// RevokeRequest selects the credentials to revoke: one family, or an actor of a tenant with its sub-actors.
	RevokeRequest = envelope.RevokeRequest
	// Revoked holds the number of listed credentials that a revocation covers.
	Revoked = envelope.RevokeResponse
	// Credential describes an issued credential that can still be used or renewed. It does not hold the token.
	Credential = envelope.CredentialInfo
	// KeyRotation holds the id of the new signing key and the times at which keys change.
	KeyRotation = envelope.RotateResponse
)

// IssueToken has a dispatcher issue the first token of a new credential.
func (c *Client) IssueToken(ctx context.Context, r IssueRequest) (Token, error) {
	t, err := ask(ctx, c, operation.TokenIssue, r)
	if err == nil {
		err = client.CheckRoles(t, r.RoleIDs)
	}
	return t, err
}

// RevokeTokens revokes credentials, with all tokens that were renewed or narrowed from them. Within 1 s, dispatchers
// refuse their requests and the servers close their connections. Without a deadline of ctx it tries for 20 s.
func (c *Client) RevokeTokens(ctx context.Context, r RevokeRequest) (Revoked, error) {
	ctx, cancel := urgently(ctx)
	defer cancel()
	a, err := ask(ctx, c, operation.TokenRevoke, r)
	return a, unsettled(err, "revoke again: it does no harm")
}

// CredentialFilter selects credentials by tenant and actor; "" selects all.
type CredentialFilter struct{ Tenant, Actor string }

// Credentials yields the issued credentials that can still be used or renewed. After an error it ends.
func (c *Client) Credentials(ctx context.Context, f CredentialFilter) iter.Seq2[Credential, error] {
	first := envelope.CredentialsRequest{Tenant: f.Tenant, Actor: f.Actor}
	return client.Pages(first, func(q *envelope.CredentialsRequest) ([]Credential, bool, error) {
		page, err := ask(ctx, c, operation.TokenList, *q)
		n := len(page.Credentials)
		if n > 0 {
			q.After = page.Credentials[n-1].Family
		}
		return page.Credentials, page.More && n > 0, err
	})
}

// RotateKeys has a dispatcher create a new key for signing tokens. Without distrust, tokens of earlier keys stay valid
// until they expire. With distrust, dispatchers accept no token of an earlier key from now on: the result holds a new
// Token for the operator, which the caller must write to its CredentialsFile.
func (c *Client) RotateKeys(ctx context.Context, distrust bool) (KeyRotation, error) {
	return ask(ctx, c, operation.KeyRotate, envelope.RotateRequest{Distrust: distrust})
}

// AuditFilter selects audit records. A record must match all fields that are set. Since and Until are in bus time.
type AuditFilter struct {
	Since, Until    time.Time // the zero time is no limit
	Tenant          string
	Tool, Actor     string
	Run, Role, Lane string
	Call            string // reference, call id, or at least the first 8 characters of the call id
	Event           string // such as tool_executed; see docs/wire.md
	Status          envelope.Status
	Code            envelope.Code
	Last            int  // yield only this number of the newest matching records, at most 65,536; 0 yields all
	Follow          bool // wait for new records until ctx ends or Until has passed
}

// AuditRecord is one record of the audit log: a request, a refusal, an outcome, or an operation of an operator.
type AuditRecord struct {
	Time                      time.Time // bus time
	Form                      int       // format of the record; the event tool_allowed has another meaning in form 3
	Event                     string    // such as tool_executed; see docs/wire.md
	Tenant, Actor             string
	Tool, Function            string
	Ref, CallID               string // reference and id of the call
	Attempt                   int
	TraceID                   string
	ArgumentsHash, OutputHash string // SHA-256 in hexadecimal; inputs and outputs are not recorded
	Status                    envelope.Status
	Code                      envelope.Code
	Effect                    envelope.Effect
	DecidedBy                 string         // executor, deadline, canceller or dispatcher; "" if nothing was decided
	Act                       string         // intended, done, refused or unknown, if the record is of an operator's act
	JSON                      jsontext.Value // the whole record as JSON; see docs/wire.md
}

// AuditRecords yields audit records, oldest first. An operator reads the records of all tenants, an auditor those of
// its own tenant. After an error it ends.
func (c *Client) AuditRecords(ctx context.Context, f AuditFilter) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		from, done, err := c.archive(ctx)
		if err != nil {
			yield(AuditRecord{}, err)
			return
		}
		defer done()
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
	record := AuditRecord{
		Time: r.Timestamp, Form: r.Form, Event: string(r.Event), Tenant: r.Tenant, Actor: r.Actor, Tool: r.ToolName,
		Function: r.Fn, Ref: r.Ref, CallID: r.CallID, Attempt: r.Attempt, TraceID: r.TraceID,
		ArgumentsHash: r.ArgumentsHash, OutputHash: r.OutputHash, Status: r.Status, Code: r.Code, Effect: r.Effect,
		DecidedBy: string(r.DecidedBy), JSON: text,
	}
	if r.Act != nil {
		record.Act = string(r.Act.State)
	}
	return record, err
}

// OpenCalls yields the calls of a tenant that have no outcome yet, oldest first; "" is the tenant of the operator. It
// asks for them page by page. After an error it ends.
func (c *Client) OpenCalls(ctx context.Context, tenant string) iter.Seq2[envelope.OpenCall, error] {
	return client.OpenCalls(ctx, c.own, tenant, refused)
}

// Executors yields the executors that run, by pool. After an error it ends.
func (c *Client) Executors(ctx context.Context) iter.Seq2[envelope.ExecutorInfo, error] {
	return client.Pages(envelope.ExecutorsRequest{}, func(q *envelope.ExecutorsRequest) (
		[]envelope.ExecutorInfo, bool, error) {
		page, err := ask(ctx, c, operation.Executors, *q)
		q.After = page.Next
		return page.Executors, page.Next != "", err
	})
}

// DeadLetter describes a call that executors could not run, and whose request is stored for a retry.
type DeadLetter struct {
	Seq        uint64    // sequence in the stream DEAD; the argument of [Client.RetryDeadLetter]
	Time       time.Time // when the attempt was given up
	Tenant     string
	Tool, Ref  string
	CallID     string // of the request that opened the attempt
	Attempt    int
	Deliveries int             // number of times that the server delivered the attempt to an executor
	Cause      *envelope.Error // why the attempt was given up
}

// DeadLetters returns the dead letters of all tenants, oldest first. Only an operator may read them.
func (c *Client) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	from, done, err := c.archive(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
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

// RetryDeadLetter has a dispatcher repeat the call of a dead letter, as the actor that made it, and waits for the
// outcome until ctx ends. It returns the response of a success; any other outcome is a [toolbus.Error].
//
// The idempotency key is made from seq and again: after a lost answer, use the same two values to ask for the same
// call. Another value of again, of at most 64 bytes, makes a new call. RetryDeadLetter does not fetch an output that
// is stored as a payload.
func (c *Client) RetryDeadLetter(ctx context.Context, seq uint64, again string) (*envelope.Response, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		a, err := c.ReplayDeadLetter(ctx, seq, again)
		switch r := a.Response; {
		case err != nil:
			return nil, err
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

// ReplayDeadLetter starts what [Client.RetryDeadLetter] waits for, and returns how the call stands. Ask again with the
// same arguments until the result has a Response, which may be one of any status.
func (c *Client) ReplayDeadLetter(ctx context.Context, seq uint64, again string) (envelope.ResultResponse, error) {
	return ask(ctx, c, operation.Replay, envelope.ReplayRequest{Letter: seq, Again: again})
}

// DescribeTools returns the descriptions of all tools that q selects, sorted by id; see toolbus.Client.DescribeTools.
func (c *Client) DescribeTools(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	d, err := c.own.Describe(ctx, q)
	return d, refused(err)
}

// DescribeTool returns the description of the tool that q names; see toolbus.Client.DescribeTool.
func (c *Client) DescribeTool(ctx context.Context, q envelope.DescribeRequest) (envelope.ToolInfo, error) {
	info, err := c.own.ToolIn(ctx, q)
	return info, refused(err)
}

// RetryDeadLetter waits firstPause before it asks again for the outcome. It doubles the pause each time, up to
// lastPause.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)
