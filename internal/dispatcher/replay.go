package dispatcher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DeadLetter is a dead letter to be replayed.
type DeadLetter struct {
	Seq     uint64 // in the stream DEAD
	Attempt int    // the attempt that was given up
	State   call.State
	Body    []byte // a [call.RequestBody]
}

// maxAgain is the largest length, in bytes, of the value with which an operator asks for a further replay.
const maxAgain = 64

// replayTime is the longest time that a dispatcher waits for the acceptance of a replay. Without it the operator's
// client asks again.
const replayTime = 5 * time.Second

// Replay repeats the call of a dead letter, as the actor that made it, and returns its state. The key of the call is
// made from the letter and again, so each value of again makes one call, and later requests are answered from its log.
// Before the call is made, Replay records the operator by and the actor.
func (d *Dispatcher) Replay(ctx context.Context, by string, l DeadLetter, again string) (
	none envelope.ResultResponse, _ *envelope.Error) {
	if len(again) > maxAgain {
		return none, envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("again is %d bytes, at most %d are allowed", len(again), maxAgain))
	}
	in, req, err := d.replayed(l, again)
	if err != nil {
		return none, envelope.NewError(envelope.CodeChecksum, fmt.Sprintf("dead letter %d cannot be read", l.Seq)).
			WithCause(err.Error()).WithFix("call the tool anew; `toolbus dead show` shows what the letter says")
	}
	key := subjects.Key{Tool: req.ToolID, ID: envelope.CallKeyID(in.From.Tenant, req)}
	last, err := d.Head(ctx, key.Tool, key.ID)
	if err != nil {
		return none, logUnread(err)
	}
	var standing envelope.ResultResponse
	var refusal *envelope.Error
	if s := last.State; s.Empty() {
		standing, refusal = d.carryOut(ctx, by, l, in, req, key.Ref())
	} else {
		standing, refusal = d.standing(ctx, s, s.Last(), s.Last().Owner.CallID)
	}
	standing.Tenant, standing.Actor, standing.Ref = in.From.Tenant, in.From.Actor, key.Ref()
	return standing, refusal
}

// replayed returns a new request from a letter: with its own call id, key and deadline, and with a reply subject on
// which only this dispatcher waits.
func (d *Dispatcher) replayed(l DeadLetter, again string) (*call.IncomingRequest, *envelope.Request, error) {
	body, err := call.DecodeRequestBody(l.Body)
	if err != nil {
		return nil, nil, err
	}
	req, refusal := envelope.DecodeRequest(envelope.ContentJSON, body.Request)
	if refusal != nil {
		return nil, nil, fmt.Errorf("%s", refusal)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", l.State.Ref(), l.Attempt, again))
	k := &req.Constraints
	k.IdempotencyKey, k.IdempotencyScope = "replay-"+hex.EncodeToString(sum[:]), envelope.ScopeActor
	k.DeadlineUnixMS = 0
	req.CallID = uuid.NewString()
	if a, ok := l.State.Attempt(l.Attempt); ok { // it may leave out what a token or a default said
		to := &req.Context
		to.RunID, to.LaneID = cmp.Or(to.RunID, a.Owner.Run), cmp.Or(to.LaneID, a.Owner.Lane)
	}
	if policy.IsImplicitRunID(req.Context.RunID) { // of a token and a policy that may be gone
		req.Context.RunID = ""
	}
	data, err := envelope.EncodeRequest(envelope.ContentJSON, req)
	if err != nil {
		return nil, nil, err
	}
	from := call.Sender{Tenant: l.State.Tenant, Actor: req.Context.ActorID}
	return &call.IncomingRequest{
		Subject: subjects.Call(from.Tenant, from.Actor, req.ToolID), From: from, Tool: req.ToolID,
		ContentType: envelope.ContentJSON, Body: data, InputRef: body.InputRef, Received: d.Now(),
		Reply: subjects.Answers(from.Tenant, from.Actor) + uuid.NewString(),
	}, req, nil
}

// carryOut makes the call of a replay, and returns the first answer: its acceptance, refusal or outcome.
func (d *Dispatcher) carryOut(ctx context.Context, by string, l DeadLetter, in *call.IncomingRequest,
	req *envelope.Request, ref string) (none envelope.ResultResponse, _ *envelope.Error) {
	note := audit.Replayed(in.From, req, d.Now(), audit.Replay{
		By: by, Letter: l.Seq, Ref: l.State.Ref(), Attempt: l.Attempt,
	})
	note.Ref, note.ArgumentsHash = ref, l.State.ArgsHash
	if err := d.Records.Note(ctx, note); err != nil {
		return none, envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second).WithCause(err.Error())
	}
	heard := d.replies.await(in.Reply)
	defer d.replies.drop(in.Reply)
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	d.handle(ctx, &check.Request{In: in, Principal: &auth.Principal{
		Tenant: in.From.Tenant, Actor: in.From.Actor, Role: auth.Agent, Scopes: []string{auth.ScopeAll},
		RoleIDs: roleOf(l),
	}})
	select {
	case a := <-heard:
		return a, nil
	case <-ctx.Done():
		return none, envelope.NewError(envelope.CodeUnavailable, "the replay was not accepted in time; it may be made yet").
			WithRetryAfter(time.Second).WithEffect(envelope.EffectUnknown)
	}
}

// replies is a Replier that passes the first answer to each replay to the goroutine that waits for it, and all other
// answers to the callers.
type replies struct {
	answer.Replier
	replays sync.Map // chan envelope.ResultResponse, by reply subject
}

// await returns a channel that receives the first answer to the subject reply; drop ends the wait.
func (r *replies) await(reply string) <-chan envelope.ResultResponse {
	c := make(chan envelope.ResultResponse, 1)
	r.replays.Store(reply, c)
	return c
}

func (r *replies) drop(reply string) { r.replays.Delete(reply) }

// Accepted implements [answer.Replier].
func (r *replies) Accepted(to call.ReplyAddress, a *envelope.Accepted) {
	if !r.take(to, envelope.ResultResponse{Accepted: a}) {
		r.Replier.Accepted(to, a)
	}
}

// Outcome implements [answer.Replier].
func (r *replies) Outcome(to call.ReplyAddress, o *envelope.Response) {
	if !r.take(to, envelope.ResultResponse{Response: o}) {
		r.Replier.Outcome(to, o)
	}
}

func (r *replies) take(to call.ReplyAddress, a envelope.ResultResponse) bool {
	c, waits := r.replays.LoadAndDelete(to.Reply)
	if waits {
		c.(chan envelope.ResultResponse) <- a // never blocks: the channel holds one, and gets one
	}
	return waits
}

// roleOf returns the role of the call of a dead letter, or nil if a build that does not know roles admitted it and the
// request named none.
func roleOf(l DeadLetter) []string {
	a, ok := l.State.Attempt(l.Attempt)
	if !ok || a.Owner.Role == "" {
		return nil
	}
	return []string{a.Owner.Role}
}
