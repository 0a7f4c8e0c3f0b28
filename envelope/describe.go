package envelope

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// DescribeRequest asks for the list of tools, sorted by id, from the first id after After on. If Tool is set, it asks
// for that tool alone, with its schemas. The answer has only tools of which at least one call could be allowed to the
// caller.
type DescribeRequest struct {
	Tool  string `json:"tool,omitzero"`
	After string `json:"after,omitzero"`
	// RoleID selects the tools that may be called in this role. Default: each role of the caller's token, or without
	// tokens the default role of the deployment.
	RoleID string `json:"role_id,omitzero"`
	// All asks for every tool, whatever the policy. Only operators get that, and without tokens everybody.
	All bool `json:"all,omitzero"`
}

// DescribeResponse is the answer to a DescribeRequest: the tools, and bus time. More means that the list goes on after
// the last tool, because one message has no room for all.
type DescribeResponse struct {
	NowUnixMS int64      `json:"now_unix_ms"`
	Tools     []ToolInfo `json:"tools"`
	More      bool       `json:"more,omitzero"`
	// SilentMS is the time, in ms, for which the server has acknowledged no write of this dispatcher although it answers
	// reads. 0 means that writes work.
	SilentMS int64 `json:"silent_ms,omitzero"`
	// Waiting is the number of open attempts without a claim, by pool. It is empty if the request named a tool. Attempts
	// of pure and idempotent tools may run without a claim.
	Waiting map[string]int `json:"waiting,omitzero"`
	// Offered are the names of tools that MCP servers have and that were not imported, by server. It is set only if the
	// answer has every tool, as for operators.
	Offered map[string][]string `json:"offered,omitzero"`
	// Policies are the digests of the policy in force; zero without one. Another policy may show other tools.
	Policies PolicyVersions `json:"policy_versions,omitzero"`
}

// ToolInfo describes a tool to callers.
type ToolInfo struct {
	ToolID      string `json:"tool_id"`
	Name        string `json:"name,omitzero"` // name in MCP; "": made from the id, see [FunctionNames]
	Version     string `json:"tool_version"`
	Digest      string `json:"digest,omitzero"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Owner       string `json:"owner,omitzero"`
	Status      string `json:"status"`
	Changed     bool   `json:"changed,omitzero"`    // changed at its MCP server since its approval: calls are refused
	Differs     bool   `json:"differs,omitzero"`    // only some executors found it changed: these do not call it
	Unrunnable  bool   `json:"unrunnable,omitzero"` // no running executor of its pool could start a run
	Determinism string `json:"determinism"`
	// Effect is Pure, IdempotentWrite, NonIdempotentWrite or ExternalSideEffects; "" from dispatchers of older builds. The
	// last two are one effect class, side_effectful in Determinism.
	Effect           string `json:"effect,omitzero"`
	Transport        string `json:"transport,omitzero"`
	Pool             string `json:"pool,omitzero"`
	Streaming        bool   `json:"streaming"`
	DryRun           bool   `json:"dry_run"`
	Lookup           bool   `json:"lookup"`
	TimeoutDefaultMS int64  `json:"timeout_ms_default"`
	TimeoutMaxMS     int64  `json:"timeout_ms_max"`
	// Limits is the zero value if a dispatcher of an older build does not send it.
	Limits ToolLimits `json:"limits,omitzero"`
	// KeyRequirement is "required" if the caller must choose the idempotency key of each call.
	KeyRequirement string                  `json:"idempotency_key_requirement,omitzero"`
	RetentionS     int64                   `json:"retention_s,omitzero"` // time in seconds for which outcomes are kept
	Functions      map[string]FunctionInfo `json:"functions"`
	Errors         []DeclaredError         `json:"errors,omitzero"`
	// Manifest is the manifest with canonical keys, without defaults and endpoint. It is set if the DescribeRequest named
	// the tool.
	Manifest jsontext.Value `json:"manifest,omitzero"`
	// ReadOnly means that the tool changes nothing, although it is not pure.
	ReadOnly bool `json:"read_only,omitzero"`
	// DeclaredOnly holds the names of the manifest's fields that have no effect yet.
	DeclaredOnly []string `json:"declared_only,omitzero"`
	// ListsChanged is how often the MCP server has announced to running executors that its resources or prompts have
	// changed, if the tool has them (Listed.Methods). It also changes when these executors do.
	ListsChanged int64 `json:"lists_changed,omitzero"`
	// Coerces means that the tool gets strings in its inputs as the values that they spell, and that the policy decides
	// about these values. It is set only if the DescribeRequest named the tool.
	Coerces bool `json:"coerces,omitzero"`
	// Listed is set if the tool was imported from an MCP server and the DescribeRequest named it.
	Listed *Listed `json:"listed,omitzero"`
}

// KeyRequired is the KeyRequirement of a tool whose caller must choose the idempotency key of each call.
const KeyRequired = "required"

// Listed is the entry of a tool in the tools/list result of its MCP server, with the name and the instructions of the
// server.
type Listed struct {
	Server ServerInfo `json:"server"`
	// Tool is the entry as the server sent it. It may contain integers beyond 2^53.
	Tool jsontext.Value `json:"tool,omitzero"`
	// Methods means that the functions are MCP methods of the server, and Tool is nil. The name of a function is that of
	// its method with _ for /, such as resources_read.
	Methods bool `json:"methods,omitzero"`
}

// ServerInfo holds the name and the instructions of an MCP server.
type ServerInfo struct {
	Name         string `json:"name"` // in servers.json
	Instructions string `json:"instructions,omitzero"`
}

// Changed returns the ids of the tools whose definition has changed, so that they wait for approval.
func Changed(tools []ToolInfo) (ids []string) {
	for _, t := range tools {
		if t.Changed {
			ids = append(ids, t.ToolID)
		}
	}
	return ids
}

// Differing returns the ids of the tools whose definition only some executors found changed.
func Differing(tools []ToolInfo) (ids []string) {
	for _, t := range tools {
		if t.Differs {
			ids = append(ids, t.ToolID)
		}
	}
	return ids
}

// ToolLimits are the limits of one call of a tool, with the names that the manifest uses. All limits of a loaded
// manifest are set.
type ToolLimits struct {
	TimeoutDefaultMS int64 `json:"timeout_ms_default"`
	TimeoutMaxMS     int64 `json:"timeout_ms_max"`
	MemoryMB         int64 `json:"memory_mb_max"` // not enforced yet
	Concurrency      int   `json:"concurrency_max"`
	OutputBytes      int64 `json:"output_bytes_max"`
	StderrBytes      int64 `json:"stderr_bytes_max"`
}

// Longest returns the time after which an executor ends any run of the tool.
func (l ToolLimits) Longest() time.Duration {
	return time.Duration(cmp.Or(l.TimeoutMaxMS, MaxTimeoutMS)) * time.Millisecond
}

// FunctionInfo describes a function to callers. Its schemas are set only if the DescribeRequest named the tool.
type FunctionInfo struct {
	Description string         `json:"description,omitzero"`
	Request     jsontext.Value `json:"request,omitzero"`
	Response    jsontext.Value `json:"response,omitzero"`
}

// DeclaredError is one error that the manifest of a tool declares.
type DeclaredError struct {
	Code       Code   `json:"code"`
	ToolCode   string `json:"tool_code"`
	HTTPStatus int    `json:"http_status,omitzero"`
	Message    string `json:"message,omitzero"`
	Fix        string `json:"fix,omitzero"`
}
