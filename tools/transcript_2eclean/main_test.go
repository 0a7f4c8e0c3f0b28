package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/program/programtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	programtest.Suite{
		Tool:    func(*testing.T, string) program.Tool { return newTool() },
		Invalid: map[string][]string{"clean": {`{}`, `{"text":""}`, `{"text":1}`, `{"text":"a","lang":"en"}`, `"a"`}},
		Elsewhere: map[string]string{
			"model_error": "there is no model",
			"timeout":     "TestTimeout",
			"too_large":   "TestTooLarge",
		},
	}.Run(t)
}

// TestGolden cleans every file of testdata/golden, as the process an executor would start.
func TestGolden(t *testing.T) {
	t.Parallel()
	built := programtest.Build(t)
	names, err := filepath.Glob("testdata/golden/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) == ".clean" {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			text := programtest.ReadFile(t, name)
			answer := programtest.Exec(t, built, t.TempDir(), nil, programtest.NewCall(t, "clean", input{text}))
			got := programtest.Decode[output](t, answer).CleanText
			programtest.Golden(t, name+".clean", got+"\n")
			if twice := cleanAll(t, got); twice != got {
				t.Error(cmp.Diff(got, twice))
			}
		})
	}
}

// TestStreams holds that the chunks of a long transcript are its clean text.
func TestStreams(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(programtest.ReadFile(t, "testdata/golden/meeting-labelled.txt")+"\n\n", 50)
	answer := programtest.Run(t, newTool(), programtest.NewCall(t, "clean", input{text}))
	var paragraphs []string
	for _, data := range answer.Data("chunk") {
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		paragraphs = append(paragraphs, c.Text)
	}
	if diff := cmp.Diff(programtest.Decode[output](t, answer).CleanText, strings.Join(paragraphs, "\n\n")); diff != "" {
		t.Error(diff)
	}
	reports := answer.Data("progress")
	if len(reports) < 5 || !strings.HasSuffix(string(reports[0]), `"unit":"lines"}`) {
		t.Errorf("progress is %s", reports)
	}
}

func TestShortTextIsNotStreamed(t *testing.T) {
	t.Parallel()
	answer := programtest.Run(t, newTool(), programtest.NewCall(t, "clean", input{"Hello."}))
	if len(answer.Lines) != 1 {
		t.Errorf("%s", answer.Raw)
	}
}

func wantError(t *testing.T, err error, code string) {
	t.Helper()
	var failure *program.Error
	if !errors.As(err, &failure) || failure.Code != code || failure.Effect != program.EffectNone {
		t.Errorf("error is %v, want %s", err, code)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word\n", 2*progressEvery)
	_, err := run(programtest.Cancelled(t), &program.Call{}, input{text}, program.NewStream(io.Discard))
	wantError(t, err, "timeout")
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"all of it":     strings.Repeat("A sentence of some length.\n", program.MaxLine/20),
		"one paragraph": strings.Repeat("x", program.MaxChunk),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t.Context(), &program.Call{}, input{text}, program.NewStream(io.Discard))
			wantError(t, err, "too_large")
		})
	}
}

// TestTooManyChunks holds that the tool says so itself before the executor ends it for its output.
func TestTooManyChunks(t *testing.T) {
	t.Parallel()
	out := program.NewStream(io.Discard)
	before := strings.Repeat("x", program.MaxChunk-len(`""`))
	for out.Written() <= maxOutput {
		if err := out.Chunk(before); err != nil {
			t.Fatal(err)
		}
	}
	written := out.Written()
	for name, text := range map[string]string{
		"paragraphs": strings.Repeat("One line.\n\n", streamFrom),
		"progress":   strings.Repeat("uh\n", 2*progressEvery) + "So.\n",
	} {
		_, err := run(t.Context(), &program.Call{}, input{text}, out)
		wantError(t, err, "too_large")
		if out.Written() != written {
			t.Errorf("%s: more is written", name)
		}
	}
	const limit = 8 << 20 // of the manifest
	if written+program.MaxChunk > limit {
		t.Errorf("%d bytes leave no room for an error", written)
	}
}

// TestLostReader holds that cleaning stops when nobody reads the chunks.
func TestLostReader(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("One line.\n\n", streamFrom)
	_, err := run(t.Context(), &program.Call{}, input{text}, program.NewStream(writer))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error is %v", err)
	}
}
