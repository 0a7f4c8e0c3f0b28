package client

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestLines reads lines in pieces of any size, and finds the id in a line that is too long.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", minFrame)
	text := strings.Join([]string{
		`{"id":1}`,
		`{"result":{"id":7,"text":"\"id\":8,` + long + `"},"jsonrpc":"2.0","id":2}`,
		`{"jsonrpc":"2.0","id":"three","result":"` + long + `"}`,
		`{"jsonrpc":"2.0","method":"m","params":{"id":"` + long + `"}}`,
		`{"id":5}`,
	}, "\n")
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLines(from)
			var got []string
			for {
				line, err := l.next(func() int64 { return minFrame })
				if long, is := errors.AsType[*tooLong](err); is {
					got = append(got, "too long: "+string(long.id))
					continue
				}
				if err != nil {
					got = append(got, err.Error())
					break
				}
				got = append(got, strings.TrimSpace(string(line)))
			}
			want := `[{"id":1} too long: 2 too long: "three" too long:  {"id":5} EOF]`
			if fmt.Sprint(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestEndlessLine checks that a line without end is an error.
func TestEndlessLine(t *testing.T) {
	l := newLines(endless{})
	_, err := l.next(func() int64 { return minFrame })
	if _, goesOn := errors.AsType[*tooLong](err); err == nil || goesOn {
		t.Errorf("got %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestEvents checks that the limit applies to each event of a stream, not to all of them together.
func TestEvents(t *testing.T) {
	event := "event: message\r\ndata: {\"a\":[1,\"[[[" + strings.Repeat("x", 1000) + "\"]}\r\n\r\n"
	small := strings.Repeat(event, 2*minFrame/len(event))
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"small ones":  {small, nil},
		"a large one": {small + "data: " + strings.Repeat("x", minFrame), &TooLargeError{}},
		"a deep one":  {small + "id: \"\ndata: " + strings.Repeat("[", 2*maxNest), &MalformedError{}},
	} {
		for _, from := range []io.Reader{strings.NewReader(test.text), iotest.HalfReader(strings.NewReader(test.text))} {
			_, err := io.Copy(io.Discard, newEvents(io.NopCloser(from), &flight{}, newRouter(nil)))
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDiscreet checks that errors contain neither a URL nor a session id.
func TestDiscreet(t *testing.T) {
	s := Server{URL: "http://127.0.0.1:1/mcp?token=swordfish", StartMS: 5000}
	_, err := Dial(t.Context(), s, Options{Client: "test"})
	if err == nil || strings.Contains(err.Error(), "swordfish") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	told := discreet(errors.New("failed to connect (session ID: swordfish): session not found")).Error()
	if told != "failed to connect: session not found" {
		t.Errorf("got %s", told)
	}
}

func TestCheck(t *testing.T) {
	for want, s := range map[string]Server{
		"":                      {Command: "x", Instances: 2},
		"either":                {},
		"either a command":      {Command: "x", URL: "http://x"},
		"no http":               {URL: "ftp://x"},
		"of a command":          {URL: "http://x", Args: []string{"y"}},
		"of a url":              {Command: "x", Headers: map[string]string{"A": "b"}},
		"instances":             {Command: "x", Instances: 65},
		"start_ms":              {Command: "x", StartMS: -1},
		"no name of a variable": {Command: "x", Env: map[string]string{"A=B": "c"}},
		"each call has a key":   {URL: "http://x", Headers: map[string]string{"Idempotency-Key": "k"}},
	} {
		if err := s.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// FuzzFinder checks that the finder finds the id of any message.
func FuzzFinder(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"id":2}}`, `{"id":"a\"b","x":[{"id":3}]}`, `{ "id" : 7 }`, `[]`,
		`{"x":"id","id":4}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want struct {
			ID jsontext.Value `json:"id"`
		}
		if len(text) > 256 || strings.Contains(string(text), `\u`) || json.Unmarshal(text, &want) != nil {
			return
		}
		if kind := want.ID.Kind(); kind == '{' || kind == '[' || len(want.ID) >= maxToken {
			return // no id of ours
		}
		var found finder
		found.take(text)
		if string(found.id) != string(want.ID) {
			t.Errorf("%s: found %s", text, found.id)
		}
	})
}

// TestEventsAreMended checks that the SDK gets each event in the form that it reads, with valid JSON, and gets events
// without JSON unchanged (HTML 9.2.6).
func TestEventsAreMended(t *testing.T) {
	const answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"
	for text, want := range map[string]string{
		"event: message\r\nid: 7\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{\"n\":NaN}}\r\n\r\n": "" +
			"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":null}}\nevent: message\nid: 7\n\n",
		"data: " + answer + "\n\n":                                   "data: " + answer + "\n\n",
		"event: message\rdata: " + answer + "\r\r: x\r\r":            "data: " + answer + "\nevent: message\n\n: x\n\n",
		"\ufeffdata:" + answer + "\r\n\r\n":                          "data: " + answer + "\n\n",
		"retry\nid\ndata\n\ndata\ndata\n\n":                          "data: \nretry: \nid: \n\ndata: \ndata: \n\n",
		"data: " + answer:                                            "data: " + answer + "\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n\n": "data: " + answer + "\n\n",
		": keep alive\n\n":                                           ": keep alive\n\n",
		"data: no message\n\ndata: {":                                "data: no message\n\n",
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			got, err := io.ReadAll(newEvents(io.NopCloser(from), &flight{}, newRouter(nil)))
			if err != nil || string(got) != want {
				t.Errorf("%q became %q, %v", text, got, err)
			}
		}
	}
}
