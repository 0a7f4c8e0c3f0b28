package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Tool is the description of one build of a tool.
type Tool struct {
	Info      envelope.ToolInfo
	Fetched   time.Time
	key       Key
	functions map[string]*Function
}

// Function is one function of a [Tool].
type Function struct {
	Name     string
	Digest   string           // of the build that it is of
	Class    call.EffectClass // of its tool
	Response *jsonschema.Schema
}

// compile compiles the schemas of a tool.
func compile(key Key, info envelope.ToolInfo) (*Tool, error) {
	t := &Tool{Info: info, Fetched: time.Now(), key: key, functions: map[string]*Function{}}
	for name, fn := range info.Functions {
		if _, err := jsonschema.Compile(info.ToolID+"/"+name+"/request", fn.Request, nil); err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		response, err := jsonschema.Compile(info.ToolID+"/"+name+"/response", fn.Response, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		t.functions[name] = &Function{
			Name: name, Digest: info.Digest, Class: call.EffectClass(info.Determinism), Response: response,
		}
	}
	return t, nil
}

// Function returns the function that a call names, or the only one if the call names none. The refusal says which
// functions the tool has.
func (t *Tool) Function(name string) (*Function, *envelope.Error) {
	if every := t.functions[envelope.AnyFunction]; every != nil {
		named := *every
		named.Name = cmp.Or(name, envelope.DefaultFunction)
		return &named, nil
	}
	if name == "" && len(t.functions) == 1 {
		for _, only := range t.functions {
			return only, nil
		}
	}
	if f := t.functions[name]; f != nil {
		return f, nil
	}
	return nil, envelope.NoFunction(t.Info.ToolID, name, slices.Collect(maps.Keys(t.functions)))
}
