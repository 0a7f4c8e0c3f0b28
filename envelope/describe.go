package envelope

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// DescribeRequest asks what tools there are, behind the one named After if there is; with a tool, for that
// one and its schemas.
type DescribeRequest struct {
	Tool  string `json:"tool,omitzero"`
	After string `json:"after,omitzero"`
}

// DescribeResponse is the answer: the tools, and bus time, by which deadlines are compared. More says that
// there are tools behind the last one; a message has no room for all.
type DescribeResponse struct {
	NowUnixMS int64      `json:"now_unix_ms"`
	Tools     []ToolInfo `json:"tools"`
	More      bool       `json:"more,omitzero"`
	// SilentMS is for how long the server has taken no write of this dispatcher, while it could be read.
	SilentMS int64 `json:"silent_ms,omitzero"`
	// Waiting says how many open attempts nobody has claimed, by pool, where there are any and no tool was named. Pure
	// and idempotent ones among them may run.
	Waiting map[string]int `json:"waiting,omitzero"`
}

// ToolInfo is what callers may know of a tool.
type ToolInfo struct {
	ToolID           string `json:"tool_id"`
	Name             string `json:"name,omitzero"` // in MCP, see [Names]; "" for the one that the id gives
	Version          string `json:"tool_version"`
	Digest           string `json:"digest,omitzero"`
	Title            string `json:"title,omitzero"`
	Description      string `json:"description,omitzero"`
	Owner            string `json:"owner,omitzero"`
	Status           string `json:"status"`
	Changed          bool   `json:"changed,omitzero"` // at its server, since it was approved: it is not called
	Differs          bool   `json:"differs,omitzero"` // it is changed for some executors alone: these do not call it
	Determinism      string `json:"determinism"`
	Transport        string `json:"transport,omitzero"`
	Pool             string `json:"pool,omitzero"`
	Streaming        bool   `json:"streaming"`
	DryRun           bool   `json:"dry_run"`
	Lookup           bool   `json:"lookup"`
	TimeoutDefaultMS int64  `json:"timeout_ms_default"`
	TimeoutMaxMS     int64  `json:"timeout_ms_max"`
	// Limits are all zero where a dispatcher of another build does not say.
	Limits     ToolLimits              `json:"limits,omitzero"`
	RetentionS int64                   `json:"retention_s,omitzero"` // how long outcomes are kept
	Functions  map[string]FunctionInfo `json:"functions"`
	Errors     []DeclaredError         `json:"errors,omitzero"`
	// Listed is set for a tool that was imported from an MCP server, in the answer about that tool alone.
	Listed *Listed `json:"listed,omitzero"`
}

// Listed is the entry of a tool in the list of its MCP server, with the name and the instructions of the server.
type Listed struct {
	Server ServerInfo `json:"server"`
	// Tool is the member of the server's list. It is JSON, and may have integers beyond 2^53.
	Tool jsontext.Value `json:"tool"`
}

// ServerInfo is an MCP server as it presents itself.
type ServerInfo struct {
	Name         string `json:"name"` // in servers.json
	Instructions string `json:"instructions,omitzero"`
}

// Changed returns the ids of those tools that wait for approval.
func Changed(tools []ToolInfo) (ids []string) {
	for _, t := range tools {
		if t.Changed {
			ids = append(ids, t.ToolID)
		}
	}
	return ids
}

// Differing returns the ids of those tools that only some executors find changed.
func Differing(tools []ToolInfo) (ids []string) {
	for _, t := range tools {
		if t.Differs {
			ids = append(ids, t.ToolID)
		}
	}
	return ids
}

// ToolLimits of one call of a tool, by the names that its manifest has for them. A manifest that was loaded has all.
type ToolLimits struct {
	TimeoutDefaultMS int64 `json:"timeout_ms_default"`
	TimeoutMaxMS     int64 `json:"timeout_ms_max"`
	MemoryMB         int64 `json:"memory_mb_max"` // not enforced yet
	Concurrency      int   `json:"concurrency_max"`
	OutputBytes      int64 `json:"output_bytes_max"`
	StderrBytes      int64 `json:"stderr_bytes_max"`
}

// Longest is the time after which any run of the tool is ended, whatever its context says.
func (l ToolLimits) Longest() time.Duration {
	return time.Duration(cmp.Or(l.TimeoutMaxMS, MaxTimeoutMS)) * time.Millisecond
}

// FunctionInfo is what callers may know of a function; schemas are given only when asked for the tool.
type FunctionInfo struct {
	Description string         `json:"description,omitzero"`
	Request     jsontext.Value `json:"request,omitzero"`
	Response    jsontext.Value `json:"response,omitzero"`
}

// DeclaredError is one error that a tool declares.
type DeclaredError struct {
	Code       Code   `json:"code"`
	ToolCode   string `json:"tool_code"`
	HTTPStatus int    `json:"http_status,omitzero"`
	Message    string `json:"message,omitzero"`
	Fix        string `json:"fix,omitzero"`
}
