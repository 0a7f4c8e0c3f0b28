package transcript

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
)

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
	_, err := cleaner{}.run(programtest.Cancelled(t), &program.Call{}, Input{text}, program.NewStream(io.Discard))
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
			_, err := cleaner{}.run(t.Context(), &program.Call{}, Input{text}, program.NewStream(io.Discard))
			wantError(t, err, "too_large")
		})
	}
}

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
		_, err := cleaner{}.run(t.Context(), &program.Call{}, Input{text}, out)
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

func TestLostReader(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("One line.\n\n", streamFrom)
	_, err := cleaner{}.run(t.Context(), &program.Call{}, Input{text}, program.NewStream(writer))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error is %v", err)
	}
}
