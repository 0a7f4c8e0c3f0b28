package mcp_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// heardTime is the longest time from the end of a push to the notification: one second, and two more for a machine that
// is busy. Without questions for the policy it takes up to listTime.
const (
	heardTime = 3 * time.Second
	listTime  = 30 * time.Second
)

// A push is heard within about a second by clients in every protocol, over HTTP and over stdio. The lists of tools are
// asked for as rarely as ever.
func TestPushIsHeard(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	operator := w.operator()
	history, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision := history[0].Revision
	web := w.server(mcp.Options{Every: listTime})
	w.token("cat", "agent://cat", auth.Agent, "")
	own, err := w.connect(toolbus.Options{CredentialsFile: w.Credentials("cat")}).Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	stdio := mcp.New(t.Context(), own, mcp.Options{Every: listTime})
	for _, door := range []*mcp.Server{web, stdio} {
		ctx, stop := context.WithCancel(t.Context())
		watching := make(chan struct{})
		go func() { defer close(watching); door.Watch(ctx) }()
		defer func() { stop(); <-watching }()
	}
	s := open(t, web)
	told := make(chan int, 1000)
	sessions := map[int]*sdk.ClientSession{}
	for i, protocol := range protocols {
		o := func(n int) *sdk.ClientOptions {
			return &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- n },
			}
		}
		sessions[2*i] = asWith(t, s, protocol, w.token("ann", "agent://ann", auth.Agent, ""), o(2*i))
		sessions[2*i+1] = (&fixture{}).connect(t, stdio, protocol, o(2*i+1))
	}
	for n, c := range sessions {
		if _, err := c.ListTools(t.Context(), nil); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
	}
	for _, other := range []string{"sleep", "whoami", "sleep"} {
		for len(told) > 0 {
			<-told
		}
		if revision, err = operator.PushPolicy(t.Context(), shifts(other), revision, ""); err != nil {
			t.Fatal(err)
		}
		pushed, heard := time.Now(), map[int]bool{}
		for len(heard) < len(sessions) {
			select {
			case n := <-told:
				heard[n] = true
			case <-time.After(2 * listTime):
				t.Fatalf("only %v were told", heard)
			}
		}
		took := time.Since(pushed)
		t.Logf("heard after %s", took)
		if took > heardTime {
			t.Errorf("heard after %s, want %s", took, heardTime)
		}
	}
}

// bureau answers descriptions as dispatchers do. It has no tools.
type bureau struct {
	mu      sync.Mutex
	policy  string        // in force
	old     string        // policy of the next list, which a dispatcher gives that has not heard of a push; "": policy
	refuses bool          // questions for the policy
	holds   chan struct{} // the next question for the policy is answered when it is closed; nil: at once
	first   chan struct{} // the first list waits until it is closed, behind one more element of asks; nil: at once
	asked   []string      // "list" and "policy"
	asks    chan struct{} // one element for each question
}

// questions are the kinds of the descriptions that were asked for.
func (b *bureau) questions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// count returns how many questions of a kind there were.
func (b *bureau) count(kind string) (n int) {
	for _, one := range b.questions() {
		if one == kind {
			n++
		}
	}
	return n
}

// pushes puts a policy in force. The next list is still by old, unless that is "".
func (b *bureau) pushes(policy, old string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policy, b.old = policy, old
}

func (b *bureau) describe(
	_ context.Context, _ call.Sender, q envelope.DescribeRequest,
) (envelope.DescribeResponse, *envelope.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.asks <- struct{}{} }()
	if first := b.first; first != nil {
		b.first = nil
		b.asks <- struct{}{}
		b.mu.Unlock()
		<-first
		b.mu.Lock()
	}
	if b.holds != nil && q.Tool != "" {
		<-b.holds
		b.holds = nil
	}
	by := b.policy
	if q.Tool != "" {
		b.asked = append(b.asked, "policy")
		if b.refuses {
			return envelope.DescribeResponse{}, envelope.NewError(envelope.CodeForbidden, "")
		}
	} else if b.asked = append(b.asked, "list"); b.old != "" {
		by, b.old = b.old, ""
	}
	return envelope.DescribeResponse{
		NowUnixMS: time.Now().UnixMilli(), Policies: envelope.PolicyVersions{Roles: by}, Tools: []envelope.ToolInfo{},
	}, nil
}

// watched returns a door that asks b.
func watched(t *testing.T, b *bureau, every time.Duration) *mcp.Server {
	t.Helper()
	on := bustest.Start(t)
	b.asks = make(chan struct{}, 1000)
	on.Serve(rpc.NewEndpoint(operation.Describe, b.describe))
	conn, err := toolbus.Connect(t.Context(), on.Srv.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	door := mcp.New(t.Context(), client, mcp.Options{Every: every})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	watching := make(chan struct{})
	go func() { defer close(watching); door.Watch(ctx) }()
	t.Cleanup(func() { stop(); <-watching })
	return door
}

// next waits for the next element of c.
func next(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing for 30 s")
	}
}

// A client that listed by an older policy than the gateway knows is notified once more.
func TestListByOlderPolicy(t *testing.T) {
	b := &bureau{policy: "a"}
	door := watched(t, b, time.Hour)
	told := make(chan struct{}, 1000)
	c := (&fixture{}).connect(t, door, protocols[0], &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
	})
	lists(t, c)
	b.pushes("b", "")
	next(t, told)
	b.pushes("b", "a")
	lists(t, c)
	next(t, told)
	lists(t, c)
	for before := b.count("policy"); b.count("policy") < before+3; {
		next(t, b.asks)
	}
	if len(told) > 0 {
		t.Errorf("told %d times more", len(told))
	}
}

// A client that lists before Watch does is notified of a push between the two lists.
func TestListBeforeWatch(t *testing.T) {
	first := make(chan struct{})
	b := &bureau{policy: "a", first: first}
	door := watched(t, b, time.Hour)
	next(t, b.asks)
	told := make(chan struct{}, 1000)
	c := (&fixture{}).connect(t, door, protocols[0], &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
	})
	lists(t, c)
	b.pushes("b", "")
	close(first)
	next(t, told)
}

// A gateway asks for the policy while it has clients, and otherwise not at all.
func TestNoClientsNoQuestions(t *testing.T) {
	b := &bureau{policy: "a"}
	door := watched(t, b, 300*time.Millisecond)
	for b.count("list") < 8 {
		next(t, b.asks)
	}
	if n := b.count("policy"); n > 0 {
		t.Errorf("asked %d times without a client", n)
	}
	(&fixture{}).connect(t, door, protocols[0], nil)
	for b.count("policy") == 0 {
		next(t, b.asks)
	}
}

// A question for the policy that is answered too late is asked again.
func TestLateAnswerAboutPolicy(t *testing.T) {
	b := &bureau{policy: "a", holds: make(chan struct{})}
	door := watched(t, b, time.Hour)
	(&fixture{}).connect(t, door, protocols[0], nil)
	late := time.AfterFunc(time.Second, func() { close(b.holds) })
	defer late.Stop()
	for b.count("policy") < 4 {
		next(t, b.asks)
	}
}

// If a question for the policy is refused, Watch asks none until the next list.
func TestRefusedQuestion(t *testing.T) {
	b := &bureau{policy: "a", refuses: true}
	(&fixture{}).connect(t, watched(t, b, 1800*time.Millisecond), protocols[0], nil)
	for b.count("policy") < 2 {
		next(t, b.asks)
	}
	asked := b.questions()
	for i := range asked[1:] {
		if asked[i] == "policy" && asked[i+1] == "policy" {
			t.Fatalf("asked %v", asked)
		}
	}
}
