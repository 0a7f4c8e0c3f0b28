package streaming

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// form2 is what a frame says of its form.
var form2 = []string{"2"}

func header(chunks string) map[string][]string {
	return map[string][]string{HeaderForm: form2, HeaderChunks: {chunks}}
}

// frameOf encodes the sample chunks [first, end) of firstRun.
func frameOf(first, end int) Frame { return frameOfRun(firstRun, first, end) }

func frameOfRun(run Run, first, end int) Frame {
	f := Frame{first: int64(first), end: int64(end)}
	for i := first; i < end; i++ {
		f.body, _ = appendChunk(f.body, envelope.ChunkData, sampleOf(run.Fence, i))
	}
	return f
}

// The wire form is fixed: other languages read it.
func TestFrameGolden(t *testing.T) {
	t.Parallel()
	var body []byte
	for _, c := range []struct {
		kind envelope.ChunkKind
		data string
	}{
		{envelope.ChunkData, "{\n \"a\": [1, 2.50],\t\"b\\u0041\": \"x\\ny\" }"},
		{envelope.ChunkProgress, " 0.5 "},
		{envelope.ChunkLog, `"näh"`},
	} {
		var err error
		if body, err = appendChunk(body, c.kind, []byte(c.data)); err != nil {
			t.Fatal(err)
		}
	}
	want := "d{\"a\":[1,2.50],\"b\\u0041\":\"x\\ny\"}\np0.5\nl\"näh\"\n"
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Fatal(diff)
	}
	f := Frame{first: 40, end: 43, after: 12, body: body}
	wantHeader := map[string][]string{HeaderForm: form2, HeaderChunks: {"40-42"}, HeaderAfter: {"12"}}
	if diff := cmp.Diff(wantHeader, f.Header()); diff != "" {
		t.Fatal(diff)
	}
	if f.First() != 40 || f.Len() != 3 || string(f.Body()) != want {
		t.Fatalf("got %d, %d, %s", f.First(), f.Len(), f.Body())
	}
	d := newDigest()
	d.addBody(body)
	wantChunks := envelope.Chunks{Count: 3, Digest: "96583de9e74064ff3a35e7090f510e22fecb75ebd49a77030396911d0ab5ae99"}
	if diff := cmp.Diff(wantChunks, d.chunks()); diff != "" {
		t.Fatal(diff)
	}
}

func TestAppendChunkRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		kind envelope.ChunkKind
		data string
	}{
		{"unknown kind", "output", `1`},
		{"no kind", "", `1`},
		{"no data", envelope.ChunkData, ``},
		{"white space", envelope.ChunkData, " \n"},
		{"two values", envelope.ChunkData, `1 2`},
		{"cut off", envelope.ChunkData, `{"a":`},
		{"duplicate names", envelope.ChunkData, `{"a":1,"a":2}`},
		{"invalid UTF-8", envelope.ChunkData, "\"\xff\""},
		{"line feed in a string", envelope.ChunkData, "\"a\nb\""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			out, err := appendChunk([]byte("before"), row.kind, []byte(row.data))
			if !errors.Is(err, ErrInvalid) || string(out) != "before" {
				t.Fatalf("got %q, %v", out, err)
			}
		})
	}
}

func TestParseFrame(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		chunks, body string
		first, n     int64 // n < 0: malformed
	}{
		{"0-0", "d1\n", 0, 1},
		{"7-9", "d1\np2\nl3\n", 7, 3},
		{"9007199254740991-9007199254740991", "d1\n", maxIndex, 1},
		{"", "", 0, 0},
		{"", "d1\n", 0, -1},
		{"0-0", "", 0, -1},
		{"0-0", "d1", 0, -1},
		{"0-0", "d1\nd2\n", 0, -1},
		{"0-2", "d1\nd2\n", 0, -1},
		{"2-1", "d1\n", 0, -1},
		{"-1-0", "d1\nd1\n", 0, -1},
		{"0", "d1\n", 0, -1},
		{"0-", "d1\n", 0, -1},
		{"00-0", "d1\n", 0, -1},
		{"+0-0", "d1\n", 0, -1},
		{"0 -0", "d1\n", 0, -1},
		{"0-0-0", "d1\n", 0, -1},
		{"9007199254740992-9007199254740992", "d1\n", 0, -1},
		{"0-9223372036854775807", "d1\n", 0, -1},
		{"0-99999999999999999999", "d1\n", 0, -1},
		{"0-0", strings.Repeat("x", maxBody) + "\n", 0, -1},
	} {
		t.Run(fmt.Sprintf("%s of %d bytes", row.chunks, len(row.body)), func(t *testing.T) {
			t.Parallel()
			f, err := ParseFrame(header(row.chunks), []byte(row.body))
			switch {
			case row.n < 0 && !errors.Is(err, ErrCorrupt):
				t.Fatalf("got %+v, %v", f, err)
			case row.n >= 0 && (err != nil || f.First() != row.first || f.Len() != row.n):
				t.Fatalf("got %+v, %v", f, err)
			}
		})
	}
}

// A hint is read from a frame that was handed on, else from a live one, and never refused.
func TestParseFrameHint(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		header map[string][]string
		want   uint64
	}{
		{map[string][]string{HeaderAfter: {"5"}, headerExpected: {"4"}}, 5},
		{map[string][]string{headerExpected: {"4"}}, 4},
		{map[string][]string{headerExpected: {"x"}}, 0},
		{map[string][]string{headerExpected: {}}, 0},
		{nil, 0},
	} {
		h := header("0-0")
		for key, values := range row.header {
			h[key] = values
		}
		if f, err := ParseFrame(h, []byte("d1\n")); err != nil || f.after != row.want {
			t.Errorf("%v: got %d, %v", row.header, f.after, err)
		}
	}
}

// Whoever changes a byte of a frame's headers gets another frame or an error, never a panic.
func TestParseFrameMangled(t *testing.T) {
	t.Parallel()
	good := frameOf(10, 13)
	for i := range good.body {
		for _, b := range []byte{0, '\n', 'd', '"', 0xff} {
			body := []byte(string(good.body))
			body[i] = b
			f, err := ParseFrame(good.Header(), body)
			for err == nil && f.Len() > 0 {
				_, _, err = f.pop()
			}
		}
	}
}

func TestFrameSkipAndLimit(t *testing.T) {
	t.Parallel()
	f := frameOf(5, 9)
	line := len(f.body) / 4
	for _, row := range []struct {
		maxBytes   int
		first, end int64
	}{
		{1 << 20, 6, 9},
		{3 * line, 6, 9},
		{3*line - 1, 6, 8},
		{line, 6, 7},
		{1, 6, 7},
		{0, 6, 7},
		{-1, 6, 7},
	} {
		got := f.skip(6).limit(row.maxBytes)
		if diff := cmp.Diff(frameOf(int(row.first), int(row.end)), got, cmp.AllowUnexported(Frame{})); diff != "" {
			t.Errorf("%d bytes: %s", row.maxBytes, diff)
		}
	}
	if f.Len() != 4 {
		t.Fatal("the frame itself was changed")
	}
}

func TestPopRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "d", "x1", "1", "d1 2", `d{"a":1,"a":1}`, "d\"\xff\""} {
		f, err := ParseFrame(header("3-3"), []byte(line+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.pop(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: got %v", line, err)
		}
	}
}

func TestRunCompare(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b Run
		want int
	}{
		{Run{1, 5}, Run{1, 5}, 0},
		{Run{1, 5}, Run{1, 6}, -1},
		{Run{2, 1}, Run{1, 6}, 1},
		{Run{}, Run{1, 0}, -1},
	} {
		if got := row.a.Compare(row.b); got != row.want {
			t.Errorf("%v and %v: got %d", row.a, row.b, got)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	f.Add("0-1", "1", []byte("d1\np2\n"))
	f.Add("5-5", "", []byte("l\"x\"\n"))
	f.Add("", "", []byte{})
	f.Add("0-9223372036854775807", "-1", []byte("\n\n\n"))
	f.Fuzz(func(t *testing.T, chunks, after string, body []byte) {
		h := header(chunks)
		h[HeaderAfter] = []string{after}
		frame, err := ParseFrame(h, body)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := ParseFrame(frame.Header(), frame.Body())
		if diff := cmp.Diff(frame, again, cmp.AllowUnexported(Frame{})); err != nil || diff != "" && frame.Len() > 0 {
			t.Fatalf("round trip: %v %s", err, diff)
		}
		if frame.Len() > int64(len(body)) {
			t.Fatalf("%d chunks in %d bytes", frame.Len(), len(body))
		}
		for next := frame.First(); frame.Len() > 0; next++ {
			if part := frame.limit(len(body) / 2); part.first != next || part.Len() < 1 || !frame.has(part.end-1) {
				t.Fatalf("limit gave %+v of %+v", part, frame)
			}
			kind, data, err := frame.pop()
			if err == nil && (letterOf(kind) == 0 || !data.IsValid()) {
				t.Fatalf("popped %q %q", kind, data)
			}
			if frame.First() != next+1 {
				t.Fatalf("popped to %d after %d", frame.First(), next)
			}
		}
	})
}
