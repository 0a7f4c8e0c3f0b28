package admin_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// answers returns an endpoint of a dispatcher that answers with f.
func answers[Q, A any](op operation.Operation[Q, A], f func(Q) (A, *envelope.Error)) rpc.Endpoint {
	return rpc.NewEndpoint(op, func(_ context.Context, _ call.Sender, q Q) (A, *envelope.Error) { return f(q) })
}

// serve offers endpoints until the test ends, and returns a client of them.
func serve(t *testing.T, endpoints ...rpc.Endpoint) *admin.Client {
	t.Helper()
	b := bustest.Start(t)
	b.Serve(endpoints...)
	c, err := admin.Connect(t.Context(), b.Srv.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A kill goes on behind each page, and looks again when the lock has taken effect: executors may have started further
// calls meanwhile.
func TestKillLocked(t *testing.T) {
	var mu sync.Mutex
	var after []envelope.LockKillPosition
	target := envelope.LockTarget{Tool: "fs.write"}
	c := serve(t, answers(operation.LockKill,
		func(q envelope.LockKillRequest) (a envelope.LockKillResponse, _ *envelope.Error) {
			mu.Lock()
			defer mu.Unlock()
			after = append(after, q.After)
			if q.LockTarget != target {
				return a, envelope.NewError(envelope.CodeNotFound, "no such lock")
			}
			a.Killed = []envelope.KilledCall{{Ref: string(rune('a' + len(after)))}}
			a.Next, a.More = envelope.LockKillPosition{Seq: q.After.Seq + 7}, q.After.Seq == 0
			return a, nil
		}))
	killed, began := "", time.Now()
	if err := c.KillLocked(t.Context(), target, func(k envelope.KilledCall) { killed += k.Ref }); err != nil {
		t.Fatal(err)
	}
	first := envelope.LockKillPosition{}
	want := []envelope.LockKillPosition{first, {Seq: 7}, first, {Seq: 7}}
	if !slices.Equal(after, want) || killed != "bcde" || time.Since(began) < time.Second {
		t.Errorf("asked after %v and killed %q within %s", after, killed, time.Since(began))
	}
	var refused *toolbus.Error
	if err := c.KillLocked(t.Context(), envelope.LockTarget{All: true}, nil); !errors.As(err, &refused) {
		t.Errorf("without the lock: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.KillLocked(ctx, target, func(envelope.KilledCall) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// A push stores the documents in parts, and once more if another push has removed them. It is read back as it was.
func TestPushPolicy(t *testing.T) {
	var mu sync.Mutex
	stored, pushes := map[string][]byte{}, 0
	set := policy.Documents{
		Roles: bytes.Repeat([]byte("r"), envelope.PolicyPartBytes+3), Lanes: []byte("l"), ToolRegistry: []byte("t"),
	}
	c := serve(t,
		answers(operation.PolicyPart, func(q envelope.PolicyPartRequest) (struct{}, *envelope.Error) {
			mu.Lock()
			defer mu.Unlock()
			stored[subjects.PolicyPart(q.SHA256, q.Part)] = q.Body
			return struct{}{}, nil
		}),
		answers(operation.PolicyPush,
			func(q envelope.PolicyPushRequest) (a envelope.PolicyPushResponse, _ *envelope.Error) {
				mu.Lock()
				defer mu.Unlock()
				if pushes++; pushes == 1 {
					clear(stored)
					return a, envelope.NewError(envelope.CodeNotFound, "not stored")
				}
				if q.Versions != set.Versions() || q.Expected != 3 || q.Reason != "why" {
					return a, envelope.NewError(envelope.CodeMalformed, "another push")
				}
				return envelope.PolicyPushResponse{Revision: 4}, nil
			}),
		answers(operation.PolicyRead,
			func(q envelope.PolicyReadRequest) (a envelope.PolicyReadResponse, _ *envelope.Error) {
				mu.Lock()
				defer mu.Unlock()
				a.Body = stored[subjects.PolicyPart(q.SHA256, q.Part)]
				return a, nil
			}),
	)
	revision, err := c.PushPolicy(t.Context(), admin.Policy(set), 3, "why")
	if err != nil || revision != 4 || pushes != 2 {
		t.Errorf("revision %d after %d pushes, %v", revision, pushes, err)
	}
	if len(stored) != 4 {
		t.Errorf("%d parts are stored", len(stored))
	}
	got, err := c.Policy(t.Context(), admin.PolicyVersion{Versions: set.Versions()})
	if read := policy.Documents(got).Versions(); err != nil || read != set.Versions() {
		t.Errorf("read back as %+v, %v", read, err)
	}
}

// The runs of all pages are listed, and those that a push stops are the active ones of a policy.
func TestRunPages(t *testing.T) {
	v := envelope.PolicyVersions{Roles: "r"}
	c := serve(t, answers(operation.RunList,
		func(q envelope.RunListRequest) (a envelope.RunListResponse, _ *envelope.Error) {
			switch q.After {
			case 0:
				return envelope.RunListResponse{Runs: []envelope.Run{{ID: "1", Policies: v}, {ID: "2"}}, Next: 2}, nil
			case 2:
				return envelope.RunListResponse{Runs: []envelope.Run{{ID: "3", Policies: v}}}, nil
			}
			return a, envelope.NewError(envelope.CodeMalformed, "no such page")
		}))
	ids := ""
	for r, err := range c.Runs(t.Context(), envelope.RunListRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids += r.ID
	}
	stops, err := c.RunsPinnedTo(t.Context(), admin.PolicyVersion{Versions: v})
	if ids != "123" || err != nil || len(stops) != 2 || stops[1].ID != "3" {
		t.Errorf("listed %s, of which a push stops %+v, %v", ids, stops, err)
	}
	for _, err := range c.Runs(t.Context(), envelope.RunListRequest{After: 9}) {
		if err == nil {
			t.Error("a refused page is no error")
		}
	}
}
