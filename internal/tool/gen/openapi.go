package gen

import (
	"cmp"
	_ "embed" // what all operations share
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// shared is the OpenAPI document without its paths.
//
//go:embed openapi.json
var shared []byte

// OpenAPI returns an OpenAPI 3.1 document with an operation for each function. The request body is the input, and the
// response is the output. Errors are problem details (RFC 9457). Their HTTP status comes from the manifest, or else
// from the table of error codes.
func OpenAPI(r *tool.Set) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(shared, &doc); err != nil {
		return nil, err
	}
	paths, schemas := map[string]any{}, components{}
	for f := range functions(r) {
		made, err := operationOf(f, schemas)
		if err != nil {
			return nil, err
		}
		paths["/v1/tools/"+f.tool.ToolID+"/"+envelope.NameToCall(f.Name)] = map[string]any{"post": made}
	}
	doc["paths"] = paths
	of, _ := doc["components"].(map[string]any)
	ours, _ := of["schemas"].(map[string]any)
	for name, s := range schemas {
		ours[name] = s
	}
	return document(doc)
}

type operation struct {
	ID          string                `json:"operationId"`
	Summary     string                `json:"summary,omitzero"`
	Description string                `json:"description,omitzero"`
	Tags        []string              `json:"tags,omitempty"`
	Deprecated  bool                  `json:"deprecated,omitzero"`
	Status      tool.Status           `json:"x-toolbus-status"`
	Version     string                `json:"x-toolbus-version"`
	Class       string                `json:"x-toolbus-determinism"`
	Effect      string                `json:"x-effect"`
	Security    []map[string][]string `json:"security,omitempty"`
	Parameters  []any                 `json:"parameters"`
	Body        body                  `json:"requestBody"`
	Responses   map[string]response   `json:"responses"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

type response struct {
	Ref         string           `json:"$ref,omitzero"`
	Description string           `json:"description,omitzero"`
	Content     map[string]media `json:"content,omitempty"`
}

type media struct {
	Schema   any                `json:"schema"`
	Examples map[string]example `json:"examples,omitempty"`
}

type example struct {
	Summary string `json:"summary"`
	Value   any    `json:"value"`
}

// problem is an example of a problem.
type problem struct {
	Type     string          `json:"type"`
	Title    string          `json:"title"`
	Status   int             `json:"status"`
	Code     envelope.Code   `json:"code"`
	ToolCode string          `json:"tool_code"`
	Outcome  envelope.Status `json:"outcome"`
	Fix      string          `json:"fix"`
}

const inJSON, inProblem = "application/json", "application/problem+json"

func operationOf(f function, schemas components) (*operation, error) {
	request, err := f.request()
	if err != nil {
		return nil, err
	}
	input, err := schemas.add(f.name+".request", request)
	if err != nil {
		return nil, err
	}
	output, err := schemas.add(f.name+".response", f.Response.Whole())
	if err != nil {
		return nil, err
	}
	m := f.tool
	o := &operation{
		ID: f.name, Summary: m.Title, Description: strings.TrimSpace(cmp.Or(f.Description, m.Description)), Tags: m.Tags,
		Deprecated: m.Status == tool.StatusDeprecated, Status: m.Status, Version: m.Semver, Class: string(m.Class),
		Effect:     m.CanonicalEffect(),
		Parameters: []any{ref("parameters", "Key"), timeout(m)},
		Body:       body{true, map[string]media{inJSON: {Schema: input}}},
		Responses:  failures(m),
	}
	if scopes := m.Security.RequiredScopes; len(scopes) > 0 {
		o.Security = []map[string][]string{{"token": scopes}}
	}
	for i, of := range f.Examples {
		if o.Body.Content[inJSON].Examples == nil {
			o.Body.Content[inJSON] = media{Schema: input, Examples: map[string]example{}}
		}
		o.Body.Content[inJSON].Examples["example"+strconv.Itoa(i+1)] = example{of.Name, of.Input}
	}
	o.Responses["200"] = response{Description: "The output.", Content: map[string]media{inJSON: {Schema: output}}}
	return o, nil
}

func ref(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}

// timeout returns the header parameter for the timeout of a call.
func timeout(m *tool.Manifest) map[string]any {
	return map[string]any{
		"name": "Toolbus-Timeout-Ms", "in": "header", "description": "How long the call may take, in milliseconds.",
		"schema": map[string]any{
			"type": "integer", "minimum": 1, "maximum": m.Limits.TimeoutMaxMS, "default": m.Limits.TimeoutDefaultMS,
		},
	}
}

// failures returns a response for each HTTP status of the declared errors, and a default response for all other errors.
func failures(m *tool.Manifest) map[string]response {
	all := map[string]response{"default": {Ref: "#/components/responses/Problem"}}
	for _, name := range m.ErrorNames {
		spec := m.Errors[name]
		code := envelope.ToolErrorCode(spec.Class, spec.Name)
		row := envelope.Lookup(code)
		status := cmp.Or(spec.HTTPStatus, row.HTTPStatus)
		r, known := all[strconv.Itoa(status)]
		if !known {
			r.Content = map[string]media{inProblem: {
				Schema: ref("schemas", "Problem"), Examples: map[string]example{},
			}}
		}
		r.Description = strings.TrimPrefix(r.Description+", "+name, ", ")
		r.Content[inProblem].Examples[name] = example{spec.Message, problem{
			"urn:toolbus:error:" + string(code), spec.Message, status, code, name, row.Status, spec.Fix,
		}}
		all[strconv.Itoa(status)] = r
	}
	return all
}
