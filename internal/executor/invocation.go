package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// invocation returns the invocation for the adapter. It reads a large input first.
func (r *run) invocation(ctx context.Context) (tool.Invocation, error) {
	j, m := r.job, r.manifest
	input, done := j.work.input, (func())(nil)
	if j.inputRef != nil {
		data, err := r.fetch(ctx)
		if err != nil {
			return tool.Invocation{}, err
		}
		input, done = data, r.freeInput
	}
	answer := tool.MCPInput{}
	if raw := member(j.work.context, "mcp_input"); raw != nil {
		var err error
		if answer, err = r.answer(ctx, raw); err != nil {
			return tool.Invocation{}, err
		}
	}
	a := j.current()
	if r.fence = call.Fence(j.state, j.delivery); r.phase == looksUp {
		r.fence = a.Fence()
	}
	traceparent := r.traceparent
	if traceparent == "" {
		traceparent = newTraceparent(a.Owner.Trace)
	}
	return tool.Invocation{
		CallID: a.Owner.CallID, ToolID: m.ToolID, ToolVersion: m.Semver, Digest: m.Digest,
		Fn: envelope.NameToCall(j.state.Fn), // clients of builds before AnyFunction send that name
		// The caller's key is unique only in its scope, the id among all calls.
		Input: input, Done: done, Context: listed(m.Context, j.work.context, a.Owner), IdempotencyKey: j.state.ID,
		MCPMeta: member(j.work.context, "mcp_meta"), MCPInput: answer,
		Attempt: j.attempt, Fence: r.fence, DryRun: j.state.DryRun,
		Traceparent: traceparent,
		Deadline:    time.Now().Add(a.Due().Sub(r.Now())), // by the clock of this host, which tools use
	}, nil
}

// fetch reads the large input of the job, and reserves memory for it until the tool has read it. Reading takes twice
// the size of the input, because the messages with its parts become garbage only at the end. fetch waits for memory
// until shortly before the deadline, which leaves time to report the error. Without memory the error is a faultError.
func (r *run) fetch(ctx context.Context) (jsontext.Value, error) {
	j := r.job
	waiting, stop := r.beforeDue(ctx)
	defer stop()
	share, err := r.memory.Acquire(waiting, flow.Sender(call.Sender(j.owner()).Family()), 2*j.inputRef.Bytes)
	switch {
	case errors.Is(err, flow.ErrTooLarge):
		return nil, faultError{envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("to read the input takes %d MiB of memory, more than this executor has for inputs: %d MiB",
				(2*j.inputRef.Bytes+1<<20-1)>>20, r.memory.Total()>>20)).
			WithFix("send less at once; the operator may give executors more by --payload-memory")}
	case err != nil && ctx.Err() == nil:
		return nil, faultError{envelope.NewError(envelope.CodeCapacity, "too many large inputs are being worked on").
			WithRetryAfter(time.Second)}
	case err != nil:
		return nil, err
	}
	data, err := r.Payloads.Get(ctx, j.owner().On(j.state.Pool), *j.inputRef)
	if err != nil {
		share.Release()
		return nil, err
	}
	share.Keep(j.inputRef.Bytes)
	r.input = share
	return data, nil
}

// freeInput frees the memory of a large input.
func (r *run) freeInput() {
	if r.input != nil {
		r.input.Release()
	}
}

// listed returns an object with the members of the request's context that names lists, in the order of the request. The
// run, the role and the lane are those of owner: the request may leave them out. It returns nil if there is no such
// member. Most tools list no members, and get no context.
func listed(names []string, context jsontext.Value, owner call.Owner) jsontext.Value {
	if len(names) == 0 {
		return nil
	}
	var kept []ijson.Member
	for _, m := range append(ijson.Members(context), ownerMembers(owner)...) {
		same := func(k ijson.Member) bool { return m.Is(string(k.Plain())) }
		if i := slices.IndexFunc(kept, same); i >= 0 {
			kept[i].Value = m.Value
		} else if slices.ContainsFunc(names, m.Is) {
			kept = append(kept, m)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return ijson.Object(kept...)
}

// member returns a member of the request's context by its name, or nil. Most requests have none of these members.
func member(context jsontext.Value, name string) jsontext.Value {
	if !bytes.Contains(context, []byte(name)) {
		return nil
	}
	for _, m := range ijson.Members(context) {
		if m.Is(name) {
			return m.Value
		}
	}
	return nil
}

// ownerMembers returns the members of a context that owner holds.
func ownerMembers(owner call.Owner) (all []ijson.Member) {
	for _, m := range [...]struct{ name, value string }{
		{`"run_id"`, owner.Run}, {`"role_id"`, owner.Role}, {`"lane_id"`, owner.Lane},
	} {
		if m.value != "" {
			all = append(all, ijson.Member{Name: jsontext.Value(m.name), Value: ijson.Quote(m.value)})
		}
	}
	return all
}

// newTraceparent returns a W3C traceparent for a run that is not exported. It has the trace id of the request, a new
// span id, and the flag "sampled", because Toolbus takes every trace of a request as sampled. If the request names no
// valid trace, the trace id is new, too.
func newTraceparent(traceID string) string {
	id, err := uuid.Parse(traceID)
	if err != nil || id == uuid.Nil {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // an id of zeros is invalid
	}
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	out := make([]byte, 0, len("00-")+2*len(id)+len("-")+2*len(span)+len("-01"))
	out = hex.AppendEncode(append(out, "00-"...), id[:])
	out = hex.AppendEncode(append(out, '-'), span[:])
	return string(append(out, "-01"...))
}
