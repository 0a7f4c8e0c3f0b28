package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// worthStreaming is the size in bytes above which an input is not copied into the request.
const worthStreaming = 256 << 10

// readRequest returns a reader of the request, one line of JSON. It does not copy a large input, unless the input has
// line breaks.
func readRequest(op protocol.Op, inv tool.Invocation) (io.Reader, error) {
	input, streamed := inv.Input, len(inv.Input) > worthStreaming && !bytes.ContainsAny(inv.Input, "\r\n")
	if streamed {
		input = jsontext.Value("null")
	}
	line, err := json.Marshal(protocol.Request{
		Op: op, CallID: inv.CallID, ToolID: inv.ToolID, ToolVersion: inv.ToolVersion, Digest: inv.Digest, Fn: inv.Fn,
		Input: input, Context: inv.Context, IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Attempt, Fence: inv.Fence,
		DeadlineUnixMS: inv.Deadline.UnixMilli(), DryRun: inv.DryRun, Traceparent: inv.Traceparent,
	})
	if err != nil || !streamed {
		return bytes.NewReader(line), err
	}
	// No value before input contains an unescaped quote, so this finds the member and not the text of another one.
	head, tail, _ := bytes.Cut(line, []byte(`"input":null`))
	return io.MultiReader(bytes.NewReader(append(head, `"input":`...)), bytes.NewReader(inv.Input), atEnd(inv.Done),
		bytes.NewReader(tail)), nil
}

// atEnd is an empty reader. Its Read calls the function: everything before it in the MultiReader has been read.
type atEnd func()

// Read implements [io.Reader].
func (f atEnd) Read([]byte) (int, error) {
	if f != nil {
		f()
	}
	return 0, io.EOF
}

// chunkKinds maps the types of lines before the terminal line to kinds of chunks.
var chunkKinds = map[string]envelope.ChunkKind{
	protocol.LineChunk:    envelope.ChunkData,
	protocol.LineProgress: envelope.ChunkProgress,
	protocol.LineLog:      envelope.ChunkLog,
}

// executing are the types of all lines of an execution.
var executing = []string{
	protocol.LineChunk, protocol.LineProgress, protocol.LineLog, protocol.LineOutput, protocol.LineError,
}

// statement is the terminal line of a tool. kind is "" before there is one.
type statement struct {
	kind   string
	result tool.Result
	fault  *tool.Error
}

// effect returns the effect that the terminal line states, or "".
func (s statement) effect() envelope.Effect {
	switch {
	case s.kind == protocol.LineOutput:
		return envelope.EffectApplied
	case s.fault != nil:
		return s.fault.Effect
	}
	return ""
}

// reader reads the lines of a tool, within limits.
type reader struct {
	lines    *bufio.Reader
	op       protocol.Op
	limit    int64 // bytes of all lines together
	read     int64
	line     []byte
	number   int           // of the line
	replaced ijson.Repairs // values of the line that I-JSON cannot represent
	said     statement
	cut      string            // how the output ended in the middle of a line, or ""
	lost     bool              // a chunk was not stored because the context had ended
	reports  func(tool.Report) // takes what the program reports of itself; may be nil
}

func newReader(r io.Reader, op protocol.Op, limit int64) *reader {
	return &reader{lines: bufio.NewReaderSize(r, 16<<10), op: op, limit: limit}
}

// readAll reads lines until the end and passes chunks to the sink. The error is a *tool.ProtocolError,
// *tool.LimitError, *tool.SinkError, or the error of the pipe. A terminal line before the error remains in r.said. If
// the sink fails because ctx has ended, readAll continues without error: the terminal line is still to come.
func (r *reader) readAll(ctx context.Context, sink tool.Sink) error {
	for {
		err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(r.line) > 0 {
			err = r.take(ctx, sink)
		}
		if err != nil {
			return r.stated(err)
		}
	}
}

// The forms of a line that says that it is the output line, even if the rest of it cannot be read.
var (
	beginsOutput = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"output"\s*,`)
	endsOutput   = regexp.MustCompile(`,\s*"type"\s*:\s*"output"\s*\}\s*$`)
)

// maxEnd is the number of bytes of a line in which its type is looked for: a search in 10 MB takes a second.
const maxEnd = 256

// stated adds the effect to an error of the output: a tool that says output has done its work.
func (r *reader) stated(err error) error {
	switch err := err.(type) {
	case *tool.ProtocolError:
		err.Effect = r.effect()
	case *tool.LimitError:
		err.Effect = r.effect()
	}
	return err
}

// effect returns the effect that the terminal line states, or the line that cannot be read.
func (r *reader) effect() envelope.Effect {
	begin, end := r.line[:min(len(r.line), maxEnd)], r.line[max(0, len(r.line)-maxEnd):]
	if r.op == protocol.OpExecute && r.said.kind == "" && (beginsOutput.Match(begin) || endsOutput.Match(end)) {
		return envelope.EffectApplied
	}
	return r.said.effect()
}

// next reads the next line, without white space and byte order marks around it. The last line may lack its newline if
// it is a whole JSON value. Otherwise the tool died while it wrote the line.
func (r *reader) next() error {
	r.line = r.line[:0]
	r.number++
	for {
		part, err := r.lines.ReadSlice('\n')
		r.line = append(r.line, part...)
		r.read += int64(len(part))
		switch {
		case r.read > r.limit:
			return &tool.LimitError{Limit: r.limit}
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		r.line = bytes.Trim(r.line, " \t\r\n\ufeff")
		if errors.Is(err, io.EOF) && len(r.line) > 0 {
			if _, _, whole := ijson.Mend(r.line, ijson.MaxDepth); whole {
				return nil
			}
			r.cut = fmt.Sprintf("standard output ended within line %d: %.120q", r.number, r.line)
		}
		return err
	}
}

// take handles one line.
func (r *reader) take(ctx context.Context, sink tool.Sink) error {
	if r.said.kind != "" {
		return r.broken(r.said.kind, "it comes after the %s line, which is the last", r.said.kind)
	}
	if kind, data := r.large(); kind != "" {
		return r.emit(ctx, sink, kind, data)
	}
	var l protocol.Absent // decodes the type of any line
	mended, replaced, ok := ijson.Mend(r.line, ijson.MaxDepth)
	if !ok || json.Unmarshal(mended, &l) != nil {
		return r.unreadable()
	}
	r.line, r.replaced = mended, replaced
	switch {
	case l.Type == protocol.LineOutput:
		return r.output()
	case l.Type == protocol.LineError:
		return r.fault()
	case l.Type == protocol.LineAbsent && r.op == protocol.OpLookup:
		r.said.kind = protocol.LineAbsent
		return r.decode(&l)
	case chunkKinds[l.Type] != "":
		return r.chunk(ctx, sink)
	case l.Type == protocol.LineMetric || l.Type == protocol.LineAttribute || l.Type == protocol.LineEvent:
		r.report(l.Type)
		return nil
	}
	return r.broken("", "%s", untyped(l.Type))
}

// untyped says what is wrong with the type of a line that may not come here.
func untyped(kind string) string {
	says := fmt.Sprintf("its type is %.40q", kind)
	switch name, ok := envelope.Nearest(kind, executing); {
	case kind == "":
		return "it has no type"
	case kind == protocol.LineAbsent:
		return says + ", which answers a lookup alone"
	case ok:
		return says + fmt.Sprintf("; did you mean %q?", name)
	}
	return says
}

// unreadable returns the error of a line that is no JSON object, or has a type that is no string.
func (r *reader) unreadable() error {
	bad := ijson.Check(r.line)
	switch {
	case len(bad) == 0 || r.line[0] != '{':
		return r.broken("", "it is not a JSON object with a type")
	case len(r.line) == 1:
		return r.broken("", "it is one line of several: write each object on one line, without indentation")
	case singleQuoted.Match(r.line):
		return r.broken("", "it has single quotes, as Python prints a dict: print json.dumps(…) of it")
	case bad[0].Pointer == "":
		return r.broken("", "it cannot be read: %s", bad[0].Message)
	}
	return r.broken("", "it cannot be read, at %q: %s", bad[0].Pointer, bad[0].Message)
}

// singleQuoted matches the beginning of a dict as Python prints it.
var singleQuoted = regexp.MustCompile(`^\{\s*'`)

func (r *reader) chunk(ctx context.Context, sink tool.Sink) error {
	var l protocol.Data[jsontext.Value]
	if err := r.decode(&l); err != nil {
		return err
	}
	if l.Data == nil {
		return r.broken(l.Type, "it has no data")
	}
	return r.emit(ctx, sink, chunkKinds[l.Type], l.Data)
}

// beginsChunk matches the beginning of a line with data, up to the data.
var beginsChunk = regexp.MustCompile(`^\{\s*"type"\s*:\s*"(chunk|progress|log)"\s*,\s*"data"\s*:\s*`)

// large returns the kind and the data of a line whose data is larger than a chunk may be, or "" for any other line. A
// sink refuses or drops such data by its length, so that the line is not decoded.
func (r *reader) large() (envelope.ChunkKind, jsontext.Value) {
	if len(r.line) <= envelope.MaxChunk {
		return "", nil
	}
	begin := beginsChunk.FindSubmatch(r.line[:maxEnd])
	if begin == nil {
		return "", nil
	}
	data := bytes.TrimRight(bytes.TrimSuffix(r.line[len(begin[0]):], []byte("}")), " \t")
	if len(data) <= envelope.MaxChunk {
		return "", nil
	}
	return chunkKinds[string(begin[1])], data
}

func (r *reader) emit(ctx context.Context, sink tool.Sink, kind envelope.ChunkKind, data jsontext.Value) error {
	if r.lost { // drop chunks after a gap
		return nil
	}
	err := sink.Emit(ctx, kind, data)
	if err != nil && ctx.Err() == nil {
		return &tool.SinkError{Err: err}
	}
	r.lost = err != nil
	return nil
}

// report passes on what the program reports of itself. That is no part of the result: a line that cannot be read is a
// report without a name, which is dropped.
func (r *reader) report(kind string) {
	var l protocol.Report
	if r.reports == nil {
		return
	}
	if json.Unmarshal(r.line, &l) != nil {
		l = protocol.Report{}
	}
	r.reports(tool.Report{Type: kind, Name: l.Name, Kind: l.Kind, Value: l.Value, Unknown: r.unnamed(l)})
}

// unnamed returns the unknown member of a report without a name, which may be its name misspelt, or "".
func (r *reader) unnamed(l protocol.Report) string {
	var at *json.SemanticError
	if l.Name != "" {
		return ""
	}
	err := json.Unmarshal(r.line, &l, json.RejectUnknownMembers(true))
	if !errors.As(err, &at) || !errors.Is(err, json.ErrUnknownName) {
		return ""
	}
	return at.JSONPointer.LastToken()
}

func (r *reader) output() error {
	var l protocol.Output[jsontext.Value, jsontext.Value]
	if err := r.decode(&l); err != nil {
		return err
	}
	result := tool.Result{Output: l.Output, SideEffects: l.SideEffects, Warnings: l.Warnings}
	if len(r.replaced.List) > 0 {
		result.Warnings = append(result.Warnings, tool.Replaced(r.replaced, len(l.Warnings), "/output")...)
	}
	if err := result.Check(); err != nil {
		return r.broken(l.Type, "%v", err)
	}
	r.said = statement{kind: protocol.LineOutput, result: result}
	return nil
}

func (r *reader) fault() error {
	var l protocol.Error[jsontext.Value]
	if err := r.decode(&l); err != nil {
		return err
	}
	fault := &tool.Error{
		Code: l.Error.Code, Message: l.Error.Message, Details: l.Error.Details,
		Effect: envelope.Effect(l.Error.Effect), RetryAfter: milliseconds(l.Error.RetryAfterMS),
	}
	if err := fault.Check(); err != nil {
		return r.broken(l.Type, "%v", err)
	}
	r.said = statement{kind: protocol.LineError, fault: fault}
	return nil
}

// milliseconds returns n ms, at most envelope.MaxRetryAfter, or 0 if n is negative.
func milliseconds(n protocol.Milliseconds) time.Duration {
	return time.Duration(min(max(int64(n), 0), envelope.MaxRetryAfter.Milliseconds())) * time.Millisecond
}

// decode decodes the line into v, and refuses unknown members.
func (r *reader) decode(v any) error {
	err := json.Unmarshal(r.line, v, json.RejectUnknownMembers(true))
	var l protocol.Absent
	_ = json.Unmarshal(r.line, &l) // take has decoded it before
	var at *json.SemanticError
	switch {
	case errors.As(err, &at) && errors.Is(err, json.ErrUnknownName):
		return r.broken(l.Type, "%s", unknown(l.Type, at.JSONPointer))
	case errors.As(err, &at):
		return r.broken(l.Type, "%s", mistyped(at))
	case err != nil:
		return r.broken(l.Type, "it is not a line of the protocol")
	}
	return nil
}

// mistyped says which kind of value a member of a line must have.
func mistyped(at *json.SemanticError) string {
	kind := "the kind of value that the protocol says"
	if at.GoType != nil {
		switch at.GoType.Kind() {
		case reflect.Slice:
			kind = "a list"
		case reflect.String:
			kind = "a string"
		case reflect.Struct:
			kind = "an object"
		case reflect.Int64:
			kind = "a number"
		}
	}
	return fmt.Sprintf("%q must be %s", at.JSONPointer, kind)
}

// unknown says that a line of a kind has an unknown member.
func unknown(kind string, at jsontext.Pointer) string {
	known, where := []string{"data"}, ""
	switch {
	case at.Parent() != "":
		known, where = []string{"code", "message", "details", "effect", "retry_after_ms"}, fmt.Sprintf(" in %q", at.Parent())
	case kind == protocol.LineOutput:
		known = []string{"output", "side_effects", "warnings"}
	case kind == protocol.LineError:
		known = []string{"error"}
	case kind == protocol.LineAbsent:
		known = nil
	}
	says := fmt.Sprintf("unknown member %.40q", at.LastToken()) + where
	if name, ok := envelope.Nearest(at.LastToken(), known); ok {
		says += fmt.Sprintf("; did you mean %q?", name)
	}
	return says
}

// broken returns the error of the line, which was to be of a kind, or of any if that is "".
func (r *reader) broken(kind, format string, args ...any) error {
	reason := fmt.Sprintf("line %d of standard output is %.120q: ", r.number, r.line) + fmt.Sprintf(format, args...)
	return &tool.ProtocolError{Reason: reason, Fix: fix(kind)}
}

// forms are the lines that a program may print, by their type.
var forms = map[string]string{
	protocol.LineChunk:    `{"type":"chunk","data":…}`,
	protocol.LineProgress: `{"type":"progress","data":…}`,
	protocol.LineLog:      `{"type":"log","data":…}`,
	protocol.LineOutput:   `{"type":"output","output":…}`,
	protocol.LineError:    `{"type":"error","error":{"code":"…","message":"…","effect":"none"}}`,
	protocol.LineAbsent:   `{"type":"absent"}`,
}

// fix returns what the author of a program prints instead of a wrong line of a kind.
func fix(kind string) string {
	form := cmp.Or(forms[kind], forms[protocol.LineOutput])
	return "report it to the tool's owner: the program must print lines such as " + form +
		" to standard output, an output or error line once and last, and all other text to standard error " +
		"(docs/writing-tools.md, \"The protocol\")"
}
