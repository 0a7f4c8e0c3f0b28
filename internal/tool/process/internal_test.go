//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

const goodOutput = `{"type":"output","output":{"a":1},"side_effects":[{"kind":"write"}],"warnings":["w"]}` + "\n"

func TestReader(t *testing.T) {
	const limit = 4 << 20
	tests := []struct {
		name string
		op   protocol.Op
		text string
		want string // kind of the statement, or "" with an error
		say  string // in the error
	}{
		{"output", protocol.OpExecute, goodOutput, protocol.LineOutput, ""},
		{"chunks before", protocol.OpExecute, `{"type":"chunk","data":1}` + "\n" + `{"data":null,"type":"log"}` + "\n" +
			goodOutput, protocol.LineOutput, ""},
		{"null output", protocol.OpExecute, `{"type":"output","output":null}`, protocol.LineOutput, ""},
		{"carriage return", protocol.OpExecute, "{\"type\":\"output\",\"output\":1}\r\n", protocol.LineOutput, ""},
		{"error", protocol.OpExecute, `{"type":"error","error":{"code":"a_b","message":"m","effect":"applied",` +
			`"retry_after_ms":5,"details":{}}}`, protocol.LineError, ""},
		{"absent", protocol.OpLookup, `{"type":"absent"}`, protocol.LineAbsent, ""},
		{"output of a lookup", protocol.OpLookup, goodOutput, protocol.LineOutput, ""},

		{"absent, executing", protocol.OpExecute, `{"type":"absent"}`, "",
			`its type is "absent", which answers a lookup alone`},
		{"absent with more", protocol.OpLookup, `{"type":"absent","output":1}`, protocol.LineAbsent,
			`unknown member "output"`},
		{"blank lines", protocol.OpExecute, "\n \r\n\ufeff" + goodOutput + "\n\ufeff\n", protocol.LineOutput, ""},
		{"a large output", protocol.OpExecute, `{"type":"output","output":"` + strings.Repeat("x", 3<<20) + `"}`,
			protocol.LineOutput, ""},
		{"no object", protocol.OpExecute, `["output"]` + "\n", "", "not a JSON object"},
		{"no type", protocol.OpExecute, `{"output":1}` + "\n", "", "it has no type"},
		{"a dict of Python", protocol.OpExecute, `{'type': 'output', 'output': 1}` + "\n", "", "print json.dumps(…) of it"},
		{"an indented object", protocol.OpExecute, "{\n  \"type\": \"output\",\n  \"output\": 1\n}\n", "",
			"it is one line of several: write each object on one line, without indentation"},
		{"no JSON at its beginning", protocol.OpExecute, `{x}` + "\n", "", "it cannot be read: line 1, column 2"},
		{"unknown type", protocol.OpExecute, `{"type":"result","output":1}` + "\n", "", `"result"`},
		{"type of another kind", protocol.OpExecute, `{"type":1}` + "\n", "", "not a JSON object"},
		{"case matters", protocol.OpExecute, `{"Type":"output","output":1}` + "\n", "", "it has no type"},
		{"twice the same name", protocol.OpExecute, `{"type":"output","output":1,"output":2}` + "\n", protocol.LineOutput,
			""},
		{"no UTF-8", protocol.OpExecute, "{\"type\":\"output\",\"output\":\"\xff\"}\n", protocol.LineOutput, ""},
		{"no JSON", protocol.OpExecute, `{"type":"output","output":{"a":1,}}` + "\n", "", "cannot be read"},
		{"chunk without data", protocol.OpExecute, `{"type":"chunk"}` + "\n", "", "has no data"},
		{"chunk with more", protocol.OpExecute, `{"type":"chunk","data":1,"output":1}` + "\n", "",
			`unknown member "output"`},
		{"output without output", protocol.OpExecute, `{"type":"output"}` + "\n", "", "no JSON value"},
		{"output with an error", protocol.OpExecute, `{"type":"output","output":1,"error":{}}` + "\n", "",
			`unknown member "error"`},
		{"misspelt output", protocol.OpExecute, `{"type":"output","ouput":1}` + "\n", "",
			`unknown member "ouput"; did you mean "output"?`},
		{"misspelt side effects", protocol.OpExecute, `{"type":"output","output":1,"side_effect":[]}` + "\n", "",
			`unknown member "side_effect"; did you mean "side_effects"?`},
		{"misspelt code", protocol.OpExecute, `{"type":"error","error":{"kode":"a"}}` + "\n", "",
			`unknown member "kode" in "/error"; did you mean "code"?`},
		{"side effect of another kind", protocol.OpExecute, `{"type":"output","output":1,"side_effects":[1]}` + "\n", "",
			"side effect"},
		{"side effect without a form", protocol.OpExecute, `{"type":"output","output":1,"side_effects":["none"]}` + "\n", "",
			`it is not a JSON object such as {"kind":"write",`},
		{"side effects of another kind", protocol.OpExecute, `{"type":"output","output":1,"side_effects":{}}` + "\n", "",
			`"/side_effects" must be a list`},
		{"warnings of another kind", protocol.OpExecute, `{"type":"output","output":1,"warnings":[1]}` + "\n", "",
			`"/warnings/0" must be a string`},
		{"error of another kind", protocol.OpExecute, `{"type":"error","error":"no"}` + "\n", "",
			`"/error" must be an object`},
		{"time of another kind", protocol.OpExecute, `{"type":"error","error":{"code":"a","retry_after_ms":"soon"}}` + "\n",
			"", `"/error/retry_after_ms" must be a number`},
		{"misspelt type", protocol.OpExecute, `{"type":"progres","data":1}` + "\n", "",
			`its type is "progres"; did you mean "progress"?`},
		{"many side effects", protocol.OpExecute,
			`{"type":"output","output":1,"side_effects":[` + strings.Repeat("{},", 1000) + `{}]}` + "\n", "", "more than 1000"},
		{"many warnings", protocol.OpExecute, `{"type":"output","output":1,"warnings":[` + strings.Repeat(`"",`,
			100) + `""]}` + "\n", "", "more than 100"},
		{"long warning", protocol.OpExecute, `{"type":"output","output":1,"warnings":["` + strings.Repeat(`x`,
			2000) + `"]}` + "\n", "", "longer than"},
		{"error without error", protocol.OpExecute, `{"type":"error"}` + "\n", "", "error code"},
		{"error with a bad code", protocol.OpExecute, `{"type":"error","error":{"code":"Bad Code"}}` + "\n", "",
			"error code"},
		{"error with a bad effect", protocol.OpExecute, `{"type":"error","error":{"code":"a","effect":"maybe"}}` + "\n", "",
			"effect"},
		{"error with a bad hint", protocol.OpExecute, `{"type":"error","error":{"code":"a","retry_after_ms":-1.5}}` + "\n",
			protocol.LineError, ""},
		{"error with bad details", protocol.OpExecute, `{"type":"error","error":{"code":"a","details":1}}` + "\n", "",
			"details"},
		{"error with more", protocol.OpExecute, `{"type":"error","error":{"code":"a","stack":"…"}}` + "\n", "", "/error"},
		{"two terminal lines", protocol.OpExecute, goodOutput + `{"type":"error","error":{"code":"a"}}` + "\n",
			protocol.LineOutput, "after the output line"},
		{"chunk after the end", protocol.OpExecute, goodOutput + `{"type":"chunk","data":1}` + "\n", protocol.LineOutput,
			"after the output line"},
		{"too much", protocol.OpExecute, strings.Repeat(`{"type":"log","data":"`+strings.Repeat("x", 1<<19)+`"}`+"\n", 9),
			"", "larger than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newReader(strings.NewReader(test.text), test.op, limit)
			err := r.readAll(t.Context(), &tooltest.Recorder{})
			if r.said.kind != test.want {
				t.Errorf("statement %q, want %q", r.said.kind, test.want)
			}
			if test.say == "" && err != nil || test.say != "" && (err == nil || !strings.Contains(err.Error(), test.say)) {
				t.Errorf("error %v, want %q", err, test.say)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if broken, ok := errors.AsType[*tool.ProtocolError](err); ok && !strings.Contains(broken.Fix, `{"type":"`) {
				t.Errorf("the fix is %q", broken.Fix)
			}
		})
	}
}

// TestFix checks that the fix of a wrong line shows the form of the line that the program meant, and names a section
// of the page.
func TestFix(t *testing.T) {
	page, err := os.ReadFile("../../../docs/writing-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for line, form := range map[string]string{
		`{"type":"chunk"}`:                   `{"type":"chunk","data":…}`,
		`{"type":"error","message":"gone"}`:  `{"type":"error","error":{"code":"…","message":"…","effect":"none"}}`,
		`{"type":"output","result":"Hello"}`: `{"type":"output","output":…}`,
		`Hello`:                              `{"type":"output","output":…}`,
	} {
		err := newReader(strings.NewReader(line+"\n"), protocol.OpExecute, 1<<20).readAll(t.Context(), &tooltest.Recorder{})
		got, ok := errors.AsType[*tool.ProtocolError](err)
		if !ok || !strings.Contains(got.Fix, "print lines such as "+form) || !strings.Contains(got.Reason, "line 1 of") {
			t.Errorf("%s: %v, fix %q", line, err, got.Fix)
			continue
		}
		_, section, _ := strings.Cut(got.Fix, `docs/writing-tools.md, "`)
		if section, _, _ = strings.Cut(section, `"`); !strings.Contains(string(page), "\n## "+section+"\n") {
			t.Errorf("the page has no section %q", section)
		}
	}
}

// TestReaderMends checks that an output with values that I-JSON cannot represent is not lost after its effect.
func TestReaderMends(t *testing.T) {
	for output, want := range map[string]string{
		`{"n":9007199254740993}`:                  `{"n":"9007199254740993"}`,
		`{"n":1e400}`:                             `{"n":"1e400"}`,
		`{"n":NaN,"m":-Infinity}`:                 `{"n":null,"m":null}`,
		`{"s":"\ud800"}`:                          `{"s":"` + "\ufffd" + `"}`,
		"{\"s\":\"caf\xe9\"}":                     `{"s":"caf` + "\ufffd" + `"}`,
		`{"a":1,"a":2}`:                           `{"a":2}`,
		`{"` + strings.Repeat("x", 2000) + `":1}`: "",
	} {
		text := `{"type":"output","output":` + output + `,"warnings":["w"]}`
		r := newReader(strings.NewReader(text+"\n"), protocol.OpExecute, 1<<20)
		err := r.readAll(t.Context(), &tooltest.Recorder{})
		got, warnings := string(r.said.result.Output), r.said.result.Warnings
		if err != nil || want != "" && got != want || !ijson.Valid(jsontext.Value(got)) || len(warnings) < 2 {
			t.Errorf("%.80q became %.80q with %q, %v", output, got, warnings, err)
		}
	}
}

// TestStatedEffect checks that an answer which cannot be used still says that the effect took place.
func TestStatedEffect(t *testing.T) {
	const broken = `{"a":1,}`
	for text, want := range map[string]envelope.Effect{
		`{"type":"output","output":` + broken + `}`:                                     envelope.EffectApplied,
		` { "type" : "output" , "output":` + broken:                                     envelope.EffectApplied,
		`{"output":` + broken + `, "type": "output" }`:                                  envelope.EffectApplied,
		`{"type":"output","output":1,"side_effects":7}`:                                 envelope.EffectApplied,
		`{"type":"output","output":"` + strings.Repeat("x", 1<<20) + `"}`:               envelope.EffectApplied,
		goodOutput + "one more line":                                                    envelope.EffectApplied,
		`{"type":"error","error":{"code":"a","effect":"none"}}` + "\none more line":     envelope.EffectNone,
		`{"type":"chunk","data":{"type":"output","output":` + broken + `}}`:             "",
		`{"type":"chunk","data":{"type":"output"}` + broken + `}`:                       "",
		`{"type":"error","error":{"code":"a","message":"{\"type\":\"output\",","x":1}}`: "",
	} {
		err := newReader(strings.NewReader(text+"\n"), protocol.OpExecute, 1<<20).readAll(t.Context(), &tooltest.Recorder{})
		var got envelope.Effect
		switch err := err.(type) {
		case *tool.ProtocolError:
			got = err.Effect
		case *tool.LimitError:
			got = err.Effect
		default:
			t.Errorf("%.80q: error %v", text, err)
		}
		if got != want {
			t.Errorf("%.80q: effect %q, want %q", text, got, want)
		}
	}
}

// refusing is a sink that refuses all chunks.
type refusing struct{ kinds []envelope.ChunkKind }

func (s *refusing) Emit(_ context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	s.kinds = append(s.kinds, kind)
	return fmt.Errorf("%d bytes are too many", len(data))
}

// Data that is larger than a chunk may be is refused by its length: the line is not decoded, and may be no JSON.
func TestLargeChunk(t *testing.T) {
	for kind := range chunkKinds {
		for size, known := range map[int]bool{envelope.MaxChunk: false, envelope.MaxChunk + 1: true, 9 << 20: true} {
			text := fmt.Sprintf(`{ "type": %q, "data": %s }`+"\n", kind, strings.Repeat("x", size))
			sink := &refusing{}
			err := newReader(strings.NewReader(text), protocol.OpExecute, 16<<20).readAll(t.Context(), sink)
			_, refused := errors.AsType[*tool.SinkError](err)
			if refused != known || len(sink.kinds) == 1 != known || known && sink.kinds[0] != chunkKinds[kind] ||
				known && !strings.HasPrefix(err.(*tool.SinkError).Err.Error(), fmt.Sprint(size)) {
				t.Errorf("%s of %d bytes: %v, %v", kind, size, err, sink.kinds)
			}
		}
	}
}

// BenchmarkLargeChunk measures how long it takes to refuse a chunk of 8 MiB.
func BenchmarkLargeChunk(b *testing.B) {
	text := `{"type":"chunk","data":"` + strings.Repeat("some text ", 8<<20/10) + `"}` + "\n"
	for b.Loop() {
		r := newReader(strings.NewReader(text), protocol.OpExecute, 16<<20)
		if err := r.readAll(b.Context(), &refusing{}); err == nil {
			b.Fatal("not refused")
		}
	}
}

// A retry delay of tens of thousands of years is cut to a day.
func TestAbsurdHint(t *testing.T) {
	for n, want := range map[int64]time.Duration{5: 5 * time.Millisecond, 1_000_000_000_000_000: 24 * time.Hour,
		1<<63 - 1: 24 * time.Hour, -1: 0} {
		text := fmt.Sprintf(`{"type":"error","error":{"code":"a_b","effect":"none","retry_after_ms":%d}}`+"\n", n)
		r := newReader(strings.NewReader(text), protocol.OpExecute, 1<<20)
		if err := r.readAll(t.Context(), &tooltest.Recorder{}); err != nil || r.said.fault == nil ||
			r.said.fault.RetryAfter != want {
			t.Errorf("%d ms: %+v, %v", n, r.said.fault, err)
		}
	}
}

// A retry delay may be any JSON number, or the text of one.
func TestHints(t *testing.T) {
	for n, want := range map[string]time.Duration{"1500.0": 1500 * time.Millisecond, "0.2": time.Millisecond, "1e2": 100 *
		time.Millisecond, `"70"`: 70 * time.Millisecond, "null": 0, "NaN": 0} {
		text := `{"type":"error","error":{"code":"a_b","effect":"none","retry_after_ms":` + n + "}}\n"
		r := newReader(strings.NewReader(text), protocol.OpExecute, 1<<20)
		if err := r.readAll(t.Context(), &tooltest.Recorder{}); err != nil || r.said.fault.RetryAfter != want {
			t.Errorf("%s: %+v, %v", n, r.said.fault, err)
		}
	}
}

// TestReaderCut distinguishes a tool that died while it wrote from one that left out the last newline.
func TestReaderCut(t *testing.T) {
	for i := range goodOutput {
		r := newReader(strings.NewReader(goodOutput[:i]), protocol.OpExecute, 1000)
		err := r.readAll(t.Context(), &tooltest.Recorder{})
		whole := i == len(goodOutput)-1
		if err != nil || (r.cut != "") != (i > 0 && !whole) || (r.said.kind != "") != whole {
			t.Errorf("first %d bytes: error %v, cut %q, said %q", i, err, r.cut, r.said.kind)
		}
	}
}

// FuzzReader checks that for any output of a tool, the reader returns only its own errors, and passes on no more than
// the limit.
func FuzzReader(f *testing.F) {
	f.Add([]byte(goodOutput))
	f.Add([]byte(`{"type":"chunk","data":[1,{}]}` + "\n" + `{"type":"error","error":{"code":"a"}}`))
	f.Add([]byte("{\"type\":\"log\",\"data\":\"\\ud800\"}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1000
		sink := &tooltest.Recorder{}
		err := newReader(bytes.NewReader(text), protocol.OpLookup, limit).readAll(context.Background(), sink)
		var protocol *tool.ProtocolError
		var over *tool.LimitError
		if err != nil && !errors.As(err, &protocol) && !errors.As(err, &over) {
			t.Errorf("error of an unknown kind: %v", err)
		}
		total := 0
		for _, e := range sink.All() {
			total += len(e.Data)
		}
		if total > limit {
			t.Errorf("%d bytes passed a limit of %d", total, limit)
		}
	})
}

// SIGKILL comes so long before the deadline that the executor can decide the call.
func TestEarly(t *testing.T) {
	a := &Adapter{grace: DefaultGrace}
	for left, report := range map[time.Duration]time.Duration{
		time.Minute: reportTime, 2400 * time.Millisecond: reportTime, 1200 * time.Millisecond: reportTime / 2, 0: 0,
	} {
		early, grace := a.early(left)
		if early-grace != report || grace > DefaultGrace || early > left/8 {
			t.Errorf("%v left: SIGTERM %v early, and a grace of %v", left, early, grace)
		}
	}
}

// TestSurvivorsJudged checks the error of a run that could not be ended.
func TestSurvivorsJudged(t *testing.T) {
	var survivor *tool.SurvivorError
	if err := (&ending{failed: supervisor.ErrSurvivors}).judge(t.Context()); !errors.As(err, &survivor) {
		t.Errorf("judged as %v", err)
	}
}

func TestBadInput(t *testing.T) {
	m := &tool.Manifest{
		Transport: Transport, Dir: t.TempDir(), Endpoint: Endpoint{Command: []string{"sh"}},
		Limits: envelope.ToolLimits{OutputBytes: 1, StderrBytes: 1},
	}
	_, err := (&Adapter{}).Execute(t.Context(), m, tool.Invocation{Input: jsontext.Value(`{`)}, &tooltest.Recorder{})
	var start *tool.StartError
	if !errors.As(err, &start) {
		t.Errorf("got %v", err)
	}
}
