package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/dispatcher"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
)

// endpoints are what the service of a dispatcher answers.
func endpoints(c *Conn, d *dispatcher.Dispatcher, o DispatcherOptions) []bus.Endpoint {
	store := streaming.NewStore(c.JS, subjects.ChunksStream)
	return []bus.Endpoint{
		endpoint(subjects.OpResult, d.Result),
		endpoint(subjects.OpCancel, d.Cancel),
		endpoint(subjects.OpWhy, d.Why),
		endpoint(subjects.OpDescribe, func(_ context.Context, _ question.Sender, q question.Describe) (question.Description, *envelope.Error) {
			tools, more := describe(o.Registry, q)
			answer := question.Description{
				NowUnixMS: c.Clock.Now().UnixMilli(), Tools: tools, More: more, SilentMS: c.Log.Silence().Milliseconds(),
			}
			if q.Tool == "" {
				answer.Waiting = d.Waiting()
			}
			return answer, nil
		}),
		toAll(endpoint(subjects.OpInventory, func(context.Context, question.Sender, struct{}) (question.Inventory, *envelope.Error) {
			return inventory(c.Instance, o.Registry), nil
		})),
		endpoint(subjects.OpChunks, func(ctx context.Context, from question.Sender, q question.Chunks) (question.ChunksAnswer, *envelope.Error) {
			return chunks(ctx, d, store, from, q)
		}),
	}
}

// endpoint decodes the question, which is as untrusted as any other message. Members that this build does not
// know are those of a newer client, which does without an answer to them.
func endpoint[Q, A any](op string, handle func(ctx context.Context, from question.Sender, q Q) (A, *envelope.Error)) bus.Endpoint {
	return bus.Endpoint{Op: op, Handle: func(ctx context.Context, from question.Sender, body []byte) (any, *envelope.Error) {
		var q Q
		err := bus.Unstamp(form.Question, body, &q)
		if _, ok := errors.AsType[*form.Error](err); ok {
			return nil, envelope.NewError(envelope.CodeMalformed, "this dispatcher does not read the question").WithCause(err.Error())
		}
		if err != nil {
			return nil, envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
		}
		return handle(ctx, from, q)
	}}
}

func chunks(
	ctx context.Context, d *dispatcher.Dispatcher, store *streaming.Store, from question.Sender, q question.Chunks,
) (a question.ChunksAnswer, _ *envelope.Error) {
	s, refusal := d.State(ctx, from, question.Call{Ref: q.Ref, CallID: q.CallID})
	if refusal != nil {
		return a, refusal
	}
	if run, ok := s.Attempt(q.Attempt); ok && q.Fence == 0 {
		q.Fence = run.Fence()
	}
	at := streaming.Position{Run: streaming.Run{Attempt: q.Attempt, Fence: q.Fence}, Index: q.Index, After: q.After}
	frame, err := chunkSource(store, s).Fetch(ctx, at, min(max(q.MaxBytes, 1), bus.MaxChunkBytes))
	switch {
	case errors.Is(err, streaming.ErrExpired):
		return question.ChunksAnswer{Fence: q.Fence, Expired: true}, nil
	case err != nil:
		return a, envelope.NewError(envelope.CodeUnavailable, "the chunks could not be read").WithCause(err.Error())
	}
	return question.ChunksAnswer{Header: frame.Header(), Body: frame.Body(), Fence: q.Fence}, nil
}

// toAll makes an endpoint one that every dispatcher answers.
func toAll(e bus.Endpoint) bus.Endpoint {
	e.All = true
	return e
}

// inventory says which builds of which tools are loaded, as many as an answer has room for.
func inventory(instance string, r *tool.Registry) question.Inventory {
	i := question.Inventory{Instance: instance, Tools: map[string]string{}}
	room := maxListed
	for _, m := range r.List() { // by id
		build := m.Semver + " (" + m.Digest[:min(len(m.Digest), digestShown)] + ")"
		if room -= 2*len(m.ToolID) + len(build); room < 0 {
			i.More = true
			break
		}
		i.Tools[m.ToolID] = build
	}
	return i
}

// digestShown is how much of a digest tells two builds apart, the name of the hash included.
const digestShown = len("sha256:") + 12

// maxListed is how much of the list of tools goes into one answer, in bytes of JSON.
const maxListed = 256 << 10

// describe lists tools, as many as an answer has room for, and says whether there are more; with an
// id, that one with its schemas.
func describe(r *tool.Registry, q question.Describe) (list []question.Tool, more bool) {
	list = []question.Tool{}
	if q.Tool != "" {
		if m, _ := r.Get(q.Tool, ""); m != nil {
			list = append(list, toolInfo(m, true))
		}
		return list, false
	}
	room := maxListed
	for _, m := range r.List() {
		if m.ToolID <= q.After {
			continue
		}
		info := toolInfo(m, false)
		raw, err := json.Marshal(info)
		if room -= len(raw); err != nil || room < 0 && len(list) > 0 {
			return list, true
		}
		list = append(list, info)
	}
	return list, false
}

func toolInfo(m *tool.Manifest, schemas bool) question.Tool {
	info := question.Tool{
		ToolID: m.ToolID, Version: m.Semver, Digest: m.Digest, Title: m.Title, Description: m.Description, Owner: m.Owner,
		Status: string(m.Status), Determinism: string(m.Class), Transport: string(m.Transport), Pool: m.Pool,
		Streaming: m.Capability.Streaming, DryRun: m.Capability.DryRun, Lookup: m.Capability.Lookup,
		TimeoutDefaultMS: m.Limits.TimeoutDefaultMS, TimeoutMaxMS: m.Limits.TimeoutMaxMS,
		Limits: m.Limits, RetentionS: int64(m.Retention / time.Second), Functions: map[string]question.Function{},
	}
	for name, fn := range m.Functions {
		f := question.Function{Description: fn.Description}
		if schemas {
			f.Request, f.Response = fn.Request.Whole(), fn.Response.Whole()
		}
		info.Functions[name] = f
	}
	for _, name := range slices.Sorted(maps.Keys(m.Errors)) {
		spec := m.Errors[name]
		info.Errors = append(info.Errors, question.ToolError{
			Code: envelope.ToolErrorCode(spec.Class, spec.Name), ToolCode: spec.Name, HTTPStatus: spec.HTTPStatus,
			Message: spec.Message, Fix: spec.Fix,
		})
	}
	return info
}
