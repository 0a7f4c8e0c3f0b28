package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// If a client supports tasks, a long call is answered with a task, and the client asks for its outcome later. A task is
// only a name of the call, which is on the bus, so any gateway can answer for it, and no task is lost with a gateway.
// The bus reveals a call only to its owner, so a guessed name is useless to others.
//
// Chunks are sent only with the answer to a request. So calls of tools that stream never become tasks, except if their
// output is a whole result of an MCP tool.

// tasks is the name of the MCP extension.
const tasks = "io.modelcontextprotocol/tasks"

// pollTime is the interval at which clients should ask for a task.
const pollTime = time.Second

// The states of a task.
const (
	working   = "working"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// Values of resultType.
const (
	resultTask     = "task"
	resultComplete = "complete"
)

// task is the result that describes a task.
type task struct {
	sdk.ResultBase
	ResultType     string         `json:"resultType"`
	TaskID         string         `json:"taskId"`
	Status         string         `json:"status"`
	StatusMessage  string         `json:"statusMessage,omitempty"`
	CreatedAt      string         `json:"createdAt"`
	LastUpdatedAt  string         `json:"lastUpdatedAt"`
	TTLMs          int64          `json:"ttlMs"`
	PollIntervalMs int64          `json:"pollIntervalMs,omitempty"`
	Result         any            `json:"result,omitempty"`
	Error          *jsonrpc.Error `json:"error,omitempty"`
}

// done is an empty result.
type done struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// taskParams are the parameters of a request about a task. Other members, such as the input that a task asks for, are
// ignored, because no task asks for input.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

// taskRequest is a request about a task.
type taskRequest = sdk.ServerRequest[*taskParams]

// serveTasks registers the methods of tasks with the library, so that it passes them to receive, which answers them.
func (s *Server) serveTasks() {
	for _, method := range []string{taskGet, taskUpdate, taskCancel} {
		_ = sdk.AddReceivingCustomMethod(s.server, method, // never fails: the library has none of these methods
			func(context.Context, *sdk.ServerSession, *taskParams) (*done, error) {
				return nil, errors.ErrUnsupported
			})
	}
}

// The methods of tasks.
const (
	taskGet    = "tasks/get"
	taskUpdate = "tasks/update"
	taskCancel = "tasks/cancel"
)

// knowsTasks reports whether a client may be answered with a task.
func knowsTasks(protocol string, capabilities *sdk.ClientCapabilities) bool {
	if protocol < modern || capabilities == nil {
		return false
	}
	_, knows := capabilities.Extensions[tasks]
	return knows
}

// becomesTask reports whether a call may be answered with a task.
func (s *Server) becomesTask(a *asked, req *sdk.CallToolRequest) bool {
	return s.o.TaskAfter > 0 && (!a.tool.streaming || a.tool.results) &&
		knowsTasks(a.peer.protocol, req.ClientCapabilities())
}

// await runs a call and returns its outcome, or its task if it takes longer than TaskAfter.
func (s *Server) await(ctx context.Context, a *asked) (*envelope.Response, *task, error) {
	began := time.Now().Truncate(time.Millisecond) // the precision of the task id
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type end struct {
		resp *envelope.Response
		err  error
	}
	ended := make(chan end, 1)
	go func() { // ends after cancel
		resp, err := a.run(ctx)
		ended <- end{resp, err}
	}()
	for pause := s.o.TaskAfter; ; pause = pollTime {
		select {
		case e := <-ended:
			return e.resp, nil, e.err
		case <-time.After(pause):
		}
		known := make(chan bool, 1)
		go func() { // in a goroutine: the bus may not answer, and the call must still end at its deadline
			_, _, err := outcomeOf(ctx, a.peer.client, a.ref())
			known <- err == nil
		}()
		select {
		case e := <-ended:
			return e.resp, nil, e.err
		case stored := <-known:
			if !stored {
				continue
			}
		}
		cancel(errLater)
		<-ended
		t := a.tool.task(a.id(), began)
		t.Meta = a.names()
		return nil, t, nil
	}
}

// errLater ends the wait for a call that has become a task.
var errLater = errors.New("the call is asked for later")

// task returns the task of a running call.
func (d *Definition) task(id string, began time.Time) *task {
	return &task{
		ResultType: resultTask, TaskID: taskID(began, d.Name, id), Status: working,
		CreatedAt: stamp(began), LastUpdatedAt: stamp(began),
		TTLMs: d.retention.Milliseconds(), PollIntervalMs: pollTime.Milliseconds(),
	}
}

func taskID(began time.Time, name, id string) string {
	return strings.Join([]string{strconv.FormatInt(began.UnixMilli(), 36), name, id}, ".")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// named returns the call of a task, and the time at which it was made.
func (s *Server) named(
	ctx context.Context,
	peer *sender,
	name string,
) (tool *Definition, id string, began time.Time, err error) {
	parts := strings.Split(name, ".")
	if len(parts) < 3 {
		return nil, "", began, noTask()
	}
	ms, err := strconv.ParseInt(parts[0], 36, 64)
	if err != nil || ms < 0 {
		return nil, "", began, noTask()
	}
	called := strings.Join(parts[1:len(parts)-1], ".")
	tool, err = s.ofTask(ctx, peer, called)
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code == jsonrpc.CodeInvalidParams {
		return nil, "", began, noTask()
	}
	if err != nil {
		return nil, "", began, unlisted(err)
	}
	id, began = parts[len(parts)-1], time.UnixMilli(ms)
	if began.Year() > maxYear || taskID(began, called, id) != name {
		return nil, "", began, noTask() // no gateway made such a name
	}
	return tool, id, began, nil
}

// ofTask returns the function of a task. The policy may hide its tool by now: that does not take the outcome from the
// caller.
func (s *Server) ofTask(ctx context.Context, peer *sender, called string) (*Definition, error) {
	if tool := s.catalogue.called(peer.tools, called); tool != nil {
		return tool, nil
	}
	return s.catalogue.find(ctx, peer.tools, called)
}

// maxYear is the last year that RFC 3339 can represent.
const maxYear = 9999

func noTask() error { return invalid("no such task is known to you") }

// aboutTask answers a request about a task.
func (s *Server) aboutTask(ctx context.Context, peer *sender, method string, req *taskRequest) (sdk.Result, error) {
	if err := mayAsk(peer, req); err != nil {
		return nil, err
	}
	if peer.client == nil {
		return nil, unlisted(errAway)
	}
	tool, id, began, err := s.named(ctx, peer, req.Params.TaskID)
	if err != nil {
		return nil, err
	}
	ref := subjects.Key{Tool: tool.Tool, ID: id}.Ref()
	if method == taskCancel {
		if _, err := peer.client.Cancel(ctx, envelope.CallRef{Ref: ref}); err != nil {
			return nil, taskError(err)
		}
		return &done{ResultType: resultComplete}, nil
	}
	resp, pending, err := outcomeOf(ctx, peer.client, ref)
	if err != nil {
		return nil, taskError(err)
	}
	if method == taskUpdate {
		return &done{ResultType: resultComplete}, nil
	}
	t := tool.task(id, began)
	t.TaskID, t.ResultType, t.Meta = req.Params.TaskID, resultComplete, sdk.Meta{envelope.MetaRef: ref}
	if pending {
		t.LastUpdatedAt = stamp(time.Now())
		return t, nil
	}
	report, err := reports(req.Params.GetMeta())
	if err != nil {
		return nil, err
	}
	return tool.ended(t, began, resp, peer.protocol, report), nil
}

// outcomeOf returns the outcome of a call. pending means that it has none yet.
func outcomeOf(ctx context.Context, client *toolbus.Client, ref string) (r *envelope.Response, pending bool,
	err error) {
	r, err = toolbus.Outcome(client.Result(ctx, envelope.CallRef{Ref: ref}))
	if open, ok := errors.AsType[*toolbus.Error](err); ok && open.Pending() {
		return nil, true, nil
	}
	return r, false, err
}

// mayAsk refuses a request of a client that does not declare support for tasks, or whose header Mcp-Name names another
// task.
func mayAsk(peer *sender, req *taskRequest) error {
	if !knowsTasks(peer.protocol, req.ClientCapabilities()) {
		need, _ := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{
			"extensions": map[string]any{tasks: map[string]any{}}}}) // of texts
		return &jsonrpc.Error{
			Code:    sdk.CodeMissingRequiredClientCapabilities,
			Message: "tasks are for clients that know " + tasks,
			Data:    need,
		}
	}
	if req.Params == nil || req.Params.TaskID == "" {
		return invalid("taskId is missing")
	}
	if peer.web && !slices.Equal(peer.header.Values("Mcp-Name"), []string{req.Params.TaskID}) {
		return &jsonrpc.Error{Code: sdk.CodeHeaderMismatch, Message: "the header Mcp-Name is not the taskId"}
	}
	return nil
}

// taskError returns the protocol error for a request about a task that the bus refused.
func taskError(err error) error {
	refused, ok := errors.AsType[*toolbus.Error](err)
	if ok && codeOf(refused.Reason()) == jsonrpc.CodeInvalidParams {
		return noTask()
	}
	return protocolError(err)
}

// ended returns the task of a call that has ended.
func (d *Definition) ended(t *task, began time.Time, r *envelope.Response, protocol string, report bool) *task {
	took := time.Duration(r.Metrics.QueueMS+r.Metrics.DurationMS) * time.Millisecond
	t.LastUpdatedAt, t.PollIntervalMs = stamp(began.Add(took)), 0
	if r.Error != nil && (r.Error.Code == envelope.CodeCancelled || r.Error.Code == envelope.CodeCancelledUnknown) {
		t.Status, t.StatusMessage = cancelled, d.inWords(r)
		return t
	}
	res, err := d.result(r, t.Meta, protocol, report)
	if err != nil {
		t.Status = failed
		t.Error, _ = errors.AsType[*jsonrpc.Error](err)
		return t
	}
	t.Status, t.Result = completed, res
	return t
}
