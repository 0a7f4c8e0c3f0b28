package mcp

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What a client sends is read here before the library does: it says precisely what is wrong with it, and so that the id
// of each request is the one that is answered, by which the door tells one request from another.

// refuted returns the answer to a text that is neither a message of JSON-RPC nor a batch of such, and nil for others.
func refuted(text []byte) []byte {
	text = bytes.TrimSpace(text)
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	_, err := dec.ReadValue()
	if err == nil && dec.InputOffset() < int64(len(text)) {
		err = errors.New("something follows it")
	}
	switch {
	case err != nil:
		why := strings.TrimPrefix(err.Error(), "jsontext: ")
		return refusal(nil, jsonrpc.CodeParseError, "a message is one value in JSON: "+why)
	case text[0] == '[':
		return refutedBatch(text)
	}
	return refutedOne(text)
}

func refutedBatch(text []byte) []byte {
	var batch []jsontext.Value
	if err := json.Unmarshal(text, &batch); err != nil || len(batch) == 0 {
		return refusal(nil, jsonrpc.CodeInvalidRequest, "a batch is a list of messages, and not empty")
	}
	ids := map[string]bool{}
	for _, one := range batch {
		if refused := refutedOne(one); refused != nil {
			return refused
		}
		id, _ := about(one)
		if ids[string(id)] {
			return refusal(id, jsonrpc.CodeInvalidRequest, "a batch is of messages, each with an id of its own")
		}
		ids[string(id)] = id != nil
	}
	return nil
}

func refutedOne(text []byte) []byte {
	if text[0] != '{' {
		return refusal(nil, jsonrpc.CodeInvalidRequest, "a message is an object")
	}
	id, method := about(text)
	if method != "" && id != nil && !kept(id) {
		return refusal(id, jsonrpc.CodeInvalidRequest, "an id is a text, or a whole number below 2^53")
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return refusal(id, jsonrpc.CodeInvalidRequest, err.Error())
	}
	return nil
}

// about returns the id and the method of a request in JSON-RPC; nothing for what is none, or several.
func about(body []byte) (id jsontext.Value, method string) {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, ""
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, ""
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, ""
		}
		switch {
		case name == "id":
			id = value.Clone()
		case name == "method" && value.Kind() == '"':
			text, _ := jsontext.AppendUnquote(nil, value) // it is a text
			method = string(text)
		}
	}
	return id, method
}

// kept reports whether the library keeps an id as it is: of numbers it keeps what an int64 does by way of a float64, so
// that two ids with fractions would become one.
func kept(id jsontext.Value) bool {
	if id.Kind() != '0' {
		return id.Kind() == '"'
	}
	var n float64
	return json.Unmarshal(id, &n) == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}

// refusal is an answer to what has no better one. An id that cannot be one is none.
func refusal(id jsontext.Value, code int64, why string) []byte {
	if kind := id.Kind(); id == nil || kind != '"' && kind != '0' {
		id = jsontext.Value("null")
	}
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why},
	})
	if err != nil {
		panic("unreachable: " + err.Error()) // texts and numbers
	}
	return append(text, '\n')
}
