package client

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Input holds the capabilities of the caller of a tool, and its answer to a question of the server. The zero value
// answers nothing, and declares no capability.
type Input struct {
	state        string
	responses    mcp.InputResponseMap
	capabilities jsontext.Value // nil for none
}

// NewInput makes an Input of the state that the server sent with its question, the object inputResponses, and the
// capabilities of the caller; responses and capabilities may be nil. It keeps only the capabilities elicitation,
// sampling and roots. The error means that MCP has no such responses.
func NewInput(state string, responses, capabilities jsontext.Value) (in Input, err error) {
	in.state = state
	if responses != nil {
		if err := json.Unmarshal(responses, &in.responses); err != nil {
			return Input{}, fmt.Errorf("the responses are not those of MCP: %w", err)
		}
	}
	var kept []ijson.Member
	for _, m := range ijson.Members(capabilities) {
		if (m.Is("elicitation") || m.Is("sampling") || m.Is("roots")) && m.Value.Kind() == '{' {
			kept = append(kept, m)
		}
	}
	if kept != nil {
		in.capabilities = ijson.Object(kept...)
	}
	return in, nil
}

// addTo adds the Input to the parameters of a request: to requestState, inputResponses and _meta. asks says whether the
// server may learn the capabilities.
func (in Input) addTo(state *string, responses *mcp.InputResponseMap, meta map[string]any, asks bool) {
	*state, *responses = in.state, in.responses
	if !asks {
		return
	}
	meta[mcp.MetaKeyClientCapabilities] = jsontext.Value("{}") // instead of those of this client
	if in.capabilities != nil {
		meta[mcp.MetaKeyClientCapabilities] = in.capabilities
	}
}

// asking is the first version of the protocol in which servers ask by their results. In earlier versions they send
// requests of their own, which this client refuses.
const asking = "2026-07-28"

// asksCallers reports whether the server asks callers by its results.
func (c *Conn) asksCallers() bool {
	_, _, protocol := c.About()
	return protocol >= asking
}
