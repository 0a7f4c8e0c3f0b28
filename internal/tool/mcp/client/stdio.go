package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// politeness is the time that a process has to exit after its input was closed, before it gets a signal.
const politeness = 500 * time.Millisecond

// process is the connection to a server that runs under a supervisor and uses standard input and output.
type process struct {
	run      *supervisor.Run
	in       *io.PipeWriter
	router   *pendingRequests
	outgoing chan []byte
	incoming chan jsonrpc.Message

	endOnce sync.Once
	ended   chan struct{} // closed when the process is being ended: nothing more is read or written
	tasks   sync.WaitGroup
	gone    chan struct{} // closed when no process is left and how is set
	how     BrokenError
	itself  bool // it ended by itself

	mu       sync.Mutex
	reason   string     // why this client ended it
	discover jsonrpc.ID // of the request server/discover, once it is sent
	declined bool       // greetAgain has answered it to the SDK
	answered bool       // the server has answered server/discover after that
}

// methodDiscover is the first request of protocols from 2026-07-28 on.
const methodDiscover = "server/discover"

// greetAgain waits, and if the process has not sent any message by then, it lets the SDK greet it with "initialize".
// Some servers ignore requests that they do not know. A server that still starts reads both requests later.
func (p *process) greetAgain(after time.Duration) {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
		return
	}
	p.mu.Lock()
	id, silent := p.discover, p.router.heard.Load() == 0
	p.declined = silent && id.IsValid()
	p.mu.Unlock()
	if !silent || !id.IsValid() {
		return
	}
	unknown := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server is silent"}
	select {
	case p.incoming <- &jsonrpc.Response{ID: id, Error: unknown}:
	case <-p.ended:
	}
}

// ignored reports whether the server has answered "initialize", and not server/discover before.
func (p *process) ignored() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.declined && !p.answered
}

// isLate reports whether a message is the answer to server/discover that the SDK does not wait for any more.
func (p *process) isLate(msg jsonrpc.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, is := msg.(*jsonrpc.Response)
	late := is && p.declined && answer.ID == p.discover
	p.answered = p.answered || late
	return late
}

// start starts the process of s, whose references are resolved.
func start(s Server, o Options, r *pendingRequests) (*process, error) {
	cfg, err := config(s, o)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	run, err := supervisor.Start(o.Supervisor, cfg, out, o.StderrBytes)
	if err != nil {
		return nil, err
	}
	p := &process{
		run: run, in: in, router: r, outgoing: make(chan []byte), incoming: make(chan jsonrpc.Message),
		ended: make(chan struct{}), gone: make(chan struct{}),
	}
	p.tasks.Go(p.write)
	if !o.Older {
		p.tasks.Go(func() { p.greetAgain(o.greetAgain) })
	}
	go p.read()
	return p, nil
}

// Startable returns an error if the process of s, whose references are resolved, could not be started now.
func Startable(s Server, o Options) error {
	cfg, err := config(s, o)
	if err != nil {
		return err
	}
	return supervisor.Startable(cfg.Path)
}

func config(s Server, o Options) (supervisor.Config, error) {
	env := map[string]string{"PATH": DefaultPath, "LANG": defaultLang}
	maps.Copy(env, s.Env)
	program, err := supervisor.Locate(s.Command, s.CWD, env["PATH"])
	if err != nil {
		return supervisor.Config{}, err
	}
	cfg := supervisor.Config{
		Path: program, Args: append([]string{s.Command}, s.Args...), Dir: s.CWD, GraceMS: o.Grace.Milliseconds(),
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cfg.Env = append(cfg.Env, name+"="+env[name])
	}
	return cfg, nil
}

// read reads all output of the process until it has ended.
func (p *process) read() {
	from := newLines(p.run.Stdout)
	for p.usable() {
		line, err := from.next(p.router.limit)
		long, isLong := errors.AsType[*tooLong](err)
		switch {
		case isLong:
			p.router.fail(long.id, &TooLargeError{Limit: long.limit})
			continue
		case err == nil:
			p.take(line)
			continue
		case !errors.Is(err, io.EOF):
			p.end(err.Error(), supervisor.Kill)
		}
		break
	}
	p.itself = p.usable()
	if !p.run.EndsWithin(politeness) { // it closed its output, so it cannot answer any more
		p.end("it closed its standard output", supervisor.Terminate)
	}
	_, _ = io.Copy(io.Discard, p.run.Stdout)
	p.stop() // ends the supervisor.Run's reader of the input
	report, err := p.run.Wait()
	p.tasks.Wait()
	p.mu.Lock()
	p.how = BrokenError{How: cmp.Or(p.reason, ending(report, err)), Stderr: p.run.Stderr()}
	p.mu.Unlock()
	close(p.gone)
}

// ending describes how a process ended.
func ending(report supervisor.Report, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case report.Failure != "":
		return report.Failure
	case report.Signal != "":
		return "signal: " + report.Signal
	}
	return fmt.Sprintf("exit status %d", report.ExitCode)
}

// take handles one line. It skips a line that is no message, as other clients do: some servers print a greeting, or
// what they receive. If the line is the answer to a call and cannot be read, take fails that call.
func (p *process) take(line []byte) {
	msg, _, err := p.router.legible(line)
	if err != nil {
		var f finder
		f.take(line)
		if f.answer && bytes.HasPrefix(line, []byte("{")) && bytes.HasSuffix(line, []byte("\n")) {
			p.router.fail(f.id, &MalformedError{Reason: fmt.Sprintf("%.120q", line)})
		}
		return
	}
	if p.isLate(msg) {
		return
	}
	told, ok := p.router.received(msg)
	if !ok {
		p.end(fmt.Sprintf("it sent more than %d requests of its own", maxAsked), supervisor.Kill)
	}
	if told == nil {
		return
	}
	select {
	case p.incoming <- told:
	case <-p.ended:
	}
}

// write writes messages to the process until it is being ended.
func (p *process) write() {
	for {
		select {
		case data := <-p.outgoing:
			if _, err := p.in.Write(data); err != nil {
				return
			}
		case <-p.ended:
			return
		}
	}
}

// Read implements mcp.Connection. It returns the next message for the SDK.
func (p *process) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-p.incoming:
		return msg, nil
	case <-p.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection. If the process does not read, Write waits until ctx ends.
func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if req, is := msg.(*jsonrpc.Request); is && req.Method == methodDiscover {
		p.mu.Lock()
		p.discover = req.ID
		p.mu.Unlock()
	}
	f := p.router.sending(ctx, msg)
	f.sent.Store(true) // the server may receive it from here on
	select {
	case p.outgoing <- append(data, '\n'):
		return nil
	case <-p.ended:
		err = io.ErrClosedPipe
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.sent.Store(false)
	return err
}

// Close implements mcp.Connection. It closes the input of the process, ends the process if it does not exit, and
// returns when no process is left.
func (p *process) Close() error {
	p.stop()
	if !p.run.EndsWithin(politeness) {
		p.run.End(supervisor.Terminate)
	}
	<-p.gone
	return nil
}

// usable reports whether the process accepts requests.
func (p *process) usable() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// SessionID implements mcp.Connection.
func (*process) SessionID() string { return "" }

// stop closes the input of the process, and stops reading and writing.
func (p *process) stop() {
	p.endOnce.Do(func() {
		close(p.ended)
		_ = p.in.Close()
	})
}

// end ends the process with a reason, which becomes the error of the running calls.
func (p *process) end(reason string, order supervisor.Command) {
	p.mu.Lock()
	p.reason = cmp.Or(p.reason, reason)
	p.mu.Unlock()
	p.stop()
	p.run.End(order)
}

// lost waits until the process has ended, and returns how.
func (p *process) lost() *BrokenError {
	<-p.gone
	how := p.how
	return &how
}
