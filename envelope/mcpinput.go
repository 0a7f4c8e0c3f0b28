package envelope

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MCPInput holds what the client of a call can be asked for, and its answer if the server of the tool has asked.
// State is [InputQuestion].State of the call that asked: it names that call. Only the actor of that call can use it,
// for the same tool, function and input. Responses is the object inputResponses of MCP. Capabilities is an object: the
// client's capabilities of MCP, of which the server gets those to be asked. Elicits means that the caller can be asked
// while the call runs, by [OpenQuestion]. Extra holds unknown members, which have no
// effect.
type MCPInput struct {
	State        string         `json:"state,omitzero"`
	Responses    jsontext.Value `json:"responses,omitzero"`
	Capabilities jsontext.Value `json:"capabilities,omitzero"`
	Elicits      bool           `json:"elicits,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Answers reports whether the call answers a question of an earlier one. It returns false for nil.
func (in *MCPInput) Answers() bool { return in != nil && (in.State != "" || in.Responses != nil) }

// InputQuestion holds the members in the details of an error with [CodeInputRequired]. Requests is the object
// inputRequests of MCP as the server sent it. State is the reference of the call: the answer has it as
// [MCPInput].State. ServerState is the requestState of the server, which gets it with the answer from the log.
type InputQuestion struct {
	Requests    jsontext.Value `json:"input_requests,omitzero"`
	State       string         `json:"input_state,omitzero"`
	ServerState string         `json:"server_state,omitzero"`
}

// MaxInputQuestion is the largest question of a server that an error keeps, in bytes: an [InputQuestion] as JSON. A
// larger one cannot be answered.
const MaxInputQuestion = 32 << 10

// Question returns the question of a server. ok is false if e has another code, or no question that can be answered.
func (e *Error) Question() (q InputQuestion, ok bool) {
	if e == nil || e.Code != CodeInputRequired {
		return q, false
	}
	for name, to := range map[string]any{
		"input_requests": &q.Requests, "input_state": &q.State, "server_state": &q.ServerState,
	} {
		if raw := e.Details.Extra[name]; raw != nil && json.Unmarshal(raw, to) != nil {
			return InputQuestion{}, false
		}
	}
	return q, q.State != "" && q.Requests.Kind() == '{'
}

// OpenQuestion is a question of the server of a tool while its call runs. A chunk of kind [ChunkProgress] has it as the
// member mcp_question of its data. Params are those of elicitation/create; without them the question is closed. An
// [AnswerRequest] answers it.
type OpenQuestion struct {
	ID     string         `json:"id"`
	Params jsontext.Value `json:"params,omitzero"`
}

// QuestionOf returns the question in a chunk, or nil for any other chunk.
func QuestionOf(c Chunk) *OpenQuestion {
	var data struct {
		Question *OpenQuestion `json:"mcp_question"`
	}
	if c.Kind != ChunkProgress || !bytes.Contains(c.Data, []byte(`"mcp_question"`)) {
		return nil
	}
	if json.Unmarshal(c.Data, &data) != nil {
		return nil
	}
	return data.Question
}

// Chunk returns the data of the chunk with the question.
func (q OpenQuestion) Chunk() (jsontext.Value, error) {
	return json.Marshal(map[string]OpenQuestion{"mcp_question": q})
}

// MaxOpenAnswer is the largest Result of an [AnswerRequest], in bytes.
const MaxOpenAnswer = 64 << 10
