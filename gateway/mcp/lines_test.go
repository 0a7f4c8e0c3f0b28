package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// echoed has a connection read everything of in, and answers each request with its method. It returns the methods read,
// and the lines of the answers.
func echoed(t testing.TB, in io.Reader, most int64, batches bool) (read []string, said []string) {
	t.Helper()
	out := &bytes.Buffer{}
	c := newConn(in, out, most)
	c.batches = batches
	for {
		msg, err := c.Read(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok {
			continue
		}
		read = append(read, req.Method)
		if req.IsCall() { // in another goroutine, as the library does
			go func() {
				resp := &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`"` + req.Method + `"`)}
				if err := c.Write(t.Context(), resp); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return read, slices.Collect(strings.Lines(out.String()))
}

// Each request with an id is answered with that id, in whatever state its line is, and the lines after it are read.
func TestLines(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":"good","method":"good"}`
	const begin = `{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n"
	ask := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"m","params":` + params + `}`
	}
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		in   string
		want []string // ids, as JSON; those of a list in one
		code string
	}{
		"a carriage return":    {good + "\r\n\r\n", nil, ""},
		"no JSON":              {"{", []string{"null"}, "-32700"},
		"two in a line":        {ask("1", "{}") + ask(`"b"`, "{}"), []string{"1", `"b"`}, "-32700"},
		"no message":           {`{"id":7}`, []string{"7"}, "-32600"},
		"an object as id":      {ask("{}", "{}"), []string{"null"}, "-32600"},
		"null as id":           {ask("null", "{}"), []string{"null"}, "-32600"},
		"a fraction":           {ask("1.5", "{}"), []string{"1.5"}, "-32600"},
		"beyond 2^53":          {ask("9007199254740993", "{}"), []string{"9007199254740993"}, "-32600"},
		"a number":             {"5", []string{"null"}, "-32600"},
		"a lone surrogate":     {ask("2", `{"a":"\ud800"}`), []string{"2"}, "-32700"},
		"one in the id":        {ask(`"\udc00x"`, `{}`), []string{`"\udc00x"`}, "-32700"},
		"bad UTF-8":            {ask("3", "{\"a\":\"\xff\"}"), []string{"3"}, "-32700"},
		"bad UTF-8 as id":      {ask("\"\xff\"", "{}"), []string{"null"}, "-32700"},
		"a member twice":       {ask("4", `{"a":1,"a":2}`), []string{"4"}, "-32700"},
		"the id twice":         {`{"id":8,"jsonrpc":"2.0","method":"m","id":5}`, []string{"5"}, "-32700"},
		"an id within":         {`{"method":"m","params":{"id":6},"x":[{"id":7}],"id":8,`, []string{"8"}, "-32700"},
		"a name with escapes":  {`{"\u0069d":9,"method":"m","method":"m"}`, []string{"9"}, "-32700"},
		"a method of no text":  {`{"jsonrpc":"2.0","id":10,"method":5}`, []string{"10"}, "-32600"},
		"another version":      {`{"jsonrpc":"1.0","id":11,"method":"m"}`, []string{"11"}, "-32600"},
		"cut":                  {`{"jsonrpc":"2.0","id":12,"method":"m","params":{"a`, []string{"12"}, "-32700"},
		"cut in a number":      {`{"jsonrpc":"2.0","method":"m","id":12`, []string{"null"}, "-32700"},
		"a malformed response": {`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, []string{"null"}, "-32700"},
		"too long":             {ask("13", `"`+long+`"`), []string{"13"}, "-32600"},
		"with its id behind":   {`{"method":"m","params":"` + long + `","id":"z"}`, []string{`"z"`}, "-32600"},
		"too long an id":       {ask(`"`+long+`"`, "{}"), []string{"null"}, "-32600"},
		"too long a response":  {`{"id":1,"result":"` + long + `"}`, []string{"null"}, "-32600"},
		"a batch where none is": {
			"[" + ask("14", "{}") + `,{"jsonrpc":"2.0","method":"n"},` + ask("15", "{}") + "]", []string{"14", "15"}, "-32600",
		},
		"too long a batch": {"[" + ask("16", `"`+long+`"`) + "," + ask("17", "1") + "]", []string{"16", "17"}, "-32600"},
		"an empty batch":   {begin + "[]", []string{"null"}, "-32600"},
		"an id twice":      {begin + "[" + ask("18", "1") + "," + ask("18", "1") + "]", []string{"[18 18]"}, "-32600"},
		"one that is none": {begin + "[1," + ask("19", "1") + "]", []string{"[19]"}, "-32600"},
		"a broken batch":   {begin + "[" + ask("20", "1") + "," + ask("21", "1"), []string{"[20 21]"}, "-32700"},
	} {
		t.Run(name, func(t *testing.T) {
			read, said := echoed(t, strings.NewReader(c.in+"\n"+good), 1000, false)
			if !slices.Contains(read, "good") || slices.Contains(read, "m") {
				t.Errorf("read %q", read)
			}
			var ids []string
			for _, answer := range said {
				id, code := answered(t, answer)
				if id != `"good"` {
					ids = append(ids, id)
				}
				if id != `"good"` && code != c.code {
					t.Errorf("the code %s: %.200s", code, answer)
				}
			}
			if !slices.Equal(ids, c.want) || len(said) <= len(ids) {
				t.Errorf("answered %q, want %q and the good one: %.300q", ids, c.want, said)
			}
		})
	}
}

// answered is the id that a line answers, and the code of the error if there is one. Of a list it is all ids.
func answered(t testing.TB, text string) (id, code string) {
	t.Helper()
	type answer struct {
		ID    jsontext.Value `json:"id"`
		Error struct {
			Code json.Number
		}
	}
	var all []answer
	if text[0] != '[' {
		all = make([]answer, 1)
		if err := json.Unmarshal([]byte(text), &all[0]); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return string(all[0].ID), all[0].Error.Code.String()
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var ids []string
	for _, one := range all {
		ids = append(ids, string(one.ID))
	}
	return "[" + strings.Join(ids, " ") + "]", all[0].Error.Code.String()
}

// A batch is answered as one, when its last request is; its notifications are not waited for.
func TestBatch(t *testing.T) {
	in := `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"method":"b"},` +
		`{"jsonrpc":"2.0","method":"n"}]` + "\n" + `[{"jsonrpc":"2.0","method":"n"}]` + "\n"
	read, said := echoed(t, strings.NewReader(in), 1000, true)
	if len(read) != 5 || len(said) != 1 {
		t.Fatalf("read %q, said %q", read, said)
	}
	if id, _ := answered(t, said[0]); id != "[1 2]" && id != "[2 1]" {
		t.Error(said[0])
	}
}

// An id that is in use is answered for each request that has it.
func TestTwins(t *testing.T) {
	out := &bytes.Buffer{}
	ask := `{"jsonrpc":"2.0","id":1,"method":"a"}` + "\n"
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
	c := newConn(strings.NewReader(ask+ask+cancel), out, 1000)
	var ids []jsonrpc.ID
	cancelled := map[any]bool{}
	for range 4 { // two requests, the cancellation, and that of the second one
		msg, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		req := msg.(*jsonrpc.Request)
		if req.IsCall() {
			ids = append(ids, req.ID)
			if id := req.Extra.(*sdk.RequestExtra).Header.Get(headerID); id != "n1" {
				t.Errorf("the key is made of %q", id)
			}
			continue
		}
		var of struct{ RequestID any }
		if err := json.Unmarshal(req.Params, &of); err != nil {
			t.Fatal(err)
		}
		id, err := jsonrpc.MakeID(of.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		cancelled[id] = true
	}
	if len(ids) != 2 || ids[0] == ids[1] || !cancelled[ids[0]] || !cancelled[ids[1]] {
		t.Errorf("%v, cancelled %v", ids, cancelled)
	}
	for _, id := range ids {
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: json.RawMessage("1")}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 { // who cancels a request gets no answer
		t.Error(out)
	}
	if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A client that has ended its input is sent answers alone: the official SDK for Python kills a server that sends it
// progress then, and the call would go on.
func TestAnswersAlone(t *testing.T) {
	progress := &jsonrpc.Request{Method: "notifications/progress", Params: json.RawMessage(`{"progress":1}`)}
	in, asks := io.Pipe()
	out := &bytes.Buffer{}
	c := newConn(in, out, 1000)
	go func() {
		_, _ = io.WriteString(asks, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`+"\n")
	}()
	if _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), progress); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "notifications/progress"); n != 1 {
		t.Errorf("%d notifications before the end: %s", n, out)
	}
	_ = asks.Close()                               // a pipe in memory closes
	if _, err := c.Read(t.Context()); err != nil { // the cancellation of what listens: the end has been read
		t.Fatal(err)
	}
	id, err := jsonrpc.MakeID(1.0)
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range []jsonrpc.Message{progress, &jsonrpc.Response{ID: id, Result: json.RawMessage("{}")}} {
		if err := c.Write(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, `"result":{}`) {
		t.Errorf("after the end of the input: %s", said)
	}
}

// FuzzLines checks that each line is answered or read, whatever it is, and that requests are answered with their ids.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "[]", "{", `[{"jsonrpc":"2.0","method":"x"}]`,
		`[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":2,"method":"x"}]`, "{}\n{}{}\n[{}]\n\"",
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, in string, batches bool) {
		_, said := echoed(t, strings.NewReader(in+"\n"+`{"jsonrpc":"2.0","id":"last","method":"x"}`), 1000, batches)
		var last bool
		for _, answer := range said {
			id, _ := answered(t, answer)
			last = last || id == `"last"`
		}
		if !last {
			t.Errorf("%q: the last line is not answered: %q", in, said)
		}
	})
}

// FuzzIDs checks the finder against a parser on whatever is JSON, however it is cut into pieces; and on anything else
// that it holds no more than it may, and finds what can be answered.
func FuzzIDs(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"m"}`, `[{"id":"a","method":"m"},{"method":"m"},[{"id":2}]]`, `{"a":{"id":1},"id":-2.5e3}`,
		`{"id":1,"result":{}}`, `{"id":[1],"method":"m"}`, `{"i\u0064":"\ud83d\ude00","method":null}`, `]}{"id":1}`,
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, in string, piece int) {
		found := finder{}
		for rest := []byte(in); len(rest) > 0; {
			n := min(len(rest), max(1, piece))
			_, _ = found.Write(rest[:n])
			rest = rest[n:]
		}
		ids, size := found.found(), 0
		for _, id := range ids {
			size += len(id)
			if text := refusal(id, 1, "x"); !bytes.Contains(text, append([]byte(`"id":`), id...)) {
				t.Errorf("%q is not answered: %s", id, text)
			}
		}
		if size > idsBytes || cap(found.token) > 2*idBytes+2 {
			t.Errorf("holds %d bytes of ids, and %d of a token", size, cap(found.token))
		}
		if want, ok := parsed([]byte(in)); ok && !slices.EqualFunc(ids, want, same) {
			t.Errorf("%q: found %q, want %q", in, ids, want)
		}
	})
}

// parsed returns the ids that the finder must return for a text that is JSON.
func parsed(text []byte) (ids []jsontext.Value, ok bool) {
	if !jsontext.Value(text).IsValid() || len(text) > idBytes {
		return nil, false
	}
	all := []jsontext.Value{text}
	if trimmed := bytes.TrimSpace(text); trimmed[0] == '[' && json.Unmarshal(trimmed, &all) != nil {
		return nil, false
	}
	for _, one := range all {
		one = bytes.TrimSpace(one)
		members := map[string]json.RawMessage{}
		if one[0] != '{' || json.Unmarshal(one, &members) != nil {
			continue
		}
		_, method := members["method"]
		_, result := members["result"]
		_, wrong := members["error"]
		id := jsontext.Value(members["id"])
		if len(id) > 0 && (id[0] == '"' || id.Kind() == '0') && (method || !result && !wrong) {
			ids = append(ids, id)
		}
	}
	return ids, true
}

// A line of any length costs no more than a message may.
func TestLongLine(t *testing.T) {
	const size = 96 << 20
	in := io.MultiReader(
		strings.NewReader(`{"params":"`), io.LimitReader(endless{}, size), strings.NewReader(`","id":77,"method":"m"}`),
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, said := echoed(t, in, DefaultBody, false)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MiB were allocated", allocated>>20)
	}
	if id, code := answered(t, said[0]); id != "77" || code != "-32600" {
		t.Errorf("%s", said)
	}
}

// endless is a text without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func same(a, b jsontext.Value) bool { return bytes.Equal(a, b) }
