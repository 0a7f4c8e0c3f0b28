package mcp

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A line that is no message is answered, and what comes after it is read.
func TestLines(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const begin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`
	for name, c := range map[string]struct{ in, read, said string }{
		"good":          {good + "\r\n\n" + good, good + "\n" + good + "\n", ""},
		"no JSON":       {"{\n" + good, good + "\n", `"code":-32700`},
		"two in a line": {good + good + "\n" + good, good + "\n", `"code":-32700`},
		"half a line":   {good + "\n" + good[:9], good + "\n", `"code":-32700`},
		"no message":    {`{"id":7}` + "\n" + good, good + "\n", `"id":7`},
		"an id that is none": {
			`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n" + good, good + "\n", `"id":null`,
		},
		"a fraction": {
			`{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n" + good, good + "\n", `"id":1.5`,
		},
		"a number that is not kept": {
			`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}` + "\n" + good, good + "\n", `"id":9007199254740993`,
		},
		"no id at all": {
			`{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n" + good, good + "\n", `"code":-32600`,
		},
		"a number":        {"5\n" + good, good + "\n", "a message is an object"},
		"too long":        {strings.Repeat("x", 1001) + "\n" + good, good + "\n", "at most 1000 bytes"},
		"much too long":   {strings.Repeat("x", 1<<20) + "\n" + good, good + "\n", "at most 1000 bytes"},
		"a batch":         {"[" + good + "]\n" + good, good + "\n", "no batches"},
		"where there are": {begin + "\n[" + good + "]", begin + "\n[" + good + "]\n", ""},
		"an empty batch":  {begin + "\n[]\n" + good, begin + "\n" + good + "\n", "not empty"},
		"an id twice":     {begin + "\n[" + good + "," + good + "]\n" + good, begin + "\n" + good + "\n", `"id":1`},
		"a batch of what": {begin + "\n[1]\n" + good, begin + "\n" + good + "\n", `"code":-32600`},
	} {
		t.Run(name, func(t *testing.T) {
			said := &bytes.Buffer{}
			read, err := io.ReadAll(&lines{r: short(c.in), to: said, most: 1000})
			if err != nil || string(read) != c.read {
				t.Errorf("%v: read %.300s", err, read)
			}
			if (c.said == "") != (said.Len() == 0) || !strings.Contains(said.String(), c.said) {
				t.Errorf("said %s", said)
			}
		})
	}
}

// FuzzLines checks that the library takes whatever comes through.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "[]", "{", `[{"jsonrpc":"2.0","method":"x"}]`,
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, in string, batches bool) {
		read, err := io.ReadAll(&lines{r: short(in), to: io.Discard, most: 1000, batches: batches})
		if err != nil {
			t.Fatal(err)
		}
		over := sdk.IOTransport{Reader: io.NopCloser(bytes.NewReader(read)), Writer: &answers{w: io.Discard}}
		conn, err := over.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = conn.Read(t.Context())
		}
		if err != io.EOF {
			t.Errorf("%q became %q: %v", in, read, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// short is a reader whose buffer is smaller than lines are.
func short(in string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(in), 16) }
