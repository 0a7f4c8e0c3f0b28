package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/transcript"
)

func TestContract(t *testing.T) {
	t.Parallel()
	programtest.Suite{
		Tool:    func(*testing.T, string) program.Tool { return transcript.Tool(nil) },
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
			call := programtest.NewCall(t, "clean", transcript.Input{Text: text})
			answer := programtest.Exec(t, built, t.TempDir(), nil, call)
			got := programtest.Decode[transcript.Output](t, answer).CleanText
			programtest.Golden(t, name+".clean", got+"\n")
			again := programtest.Run(t, transcript.Tool(nil), programtest.NewCall(t, "clean", transcript.Input{Text: got}))
			if twice := programtest.Decode[transcript.Output](t, again).CleanText; twice != got {
				t.Error(cmp.Diff(got, twice))
			}
		})
	}
}

// TestStreams holds that the chunks of a long transcript are its clean text.
func TestStreams(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(programtest.ReadFile(t, "testdata/golden/meeting-labelled.txt")+"\n\n", 50)
	answer := programtest.Run(t, transcript.Tool(nil), programtest.NewCall(t, "clean", transcript.Input{Text: text}))
	var paragraphs []string
	for _, data := range answer.Data("chunk") {
		var c struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		paragraphs = append(paragraphs, c.Text)
	}
	clean := programtest.Decode[transcript.Output](t, answer).CleanText
	if diff := cmp.Diff(clean, strings.Join(paragraphs, "\n\n")); diff != "" {
		t.Error(diff)
	}
	reports := answer.Data("progress")
	if len(reports) < 5 || !strings.HasSuffix(string(reports[0]), `"unit":"lines"}`) {
		t.Errorf("progress is %s", reports)
	}
}

func TestShortTextIsNotStreamed(t *testing.T) {
	t.Parallel()
	answer := programtest.Run(t, transcript.Tool(nil), programtest.NewCall(t, "clean", transcript.Input{Text: "Hello."}))
	if len(answer.Lines) != 1 {
		t.Errorf("%s", answer.Raw)
	}
}

// TestTooManyChunks holds that the tool says so itself before the executor ends it for its output.
// TestLostReader holds that cleaning stops when nobody reads the chunks.
