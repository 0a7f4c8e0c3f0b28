package envelope

// CodeInfo is the row of a code in the taxonomy. Documentation, bindings and gateways derive all properties of errors
// from it.
type CodeInfo struct {
	Code   Code
	Status Status
	// AutoRetry states that a client may retry without asking its caller. A retryable code without it is safe to retry,
	// but a caller or operator ended the call on purpose.
	AutoRetry bool
	// RetryAfterMS is the default back-off hint of a retryable code, in milliseconds.
	RetryAfterMS int64
	// Effect is the default effect of an error with the code: none if no tool ran, and otherwise unknown.
	Effect      Effect
	Message     string
	Fix         string
	LikelyCause string
	HTTPStatus  int
	// MCP is the JSON-RPC code of the protocol error in MCP. 0 means a tool result with isError, to which a model can
	// react.
	MCP      int
	Gateway  string // error code of Tool Gateway v1
	Category string // one of the categories below
	Severity string // info, warning, error or critical
}

// Error codes of Tool Gateway v1.
const (
	GatewayNotImplemented   = "TOOL_NOT_IMPLEMENTED"
	GatewayDenied           = "TOOL_DENIED"
	GatewayInvalidArguments = "TOOL_INVALID_ARGUMENTS"
	GatewayTimeout          = "TOOL_TIMEOUT"
	GatewayDependencyDown   = "TOOL_DEPENDENCY_DOWN"
	GatewayInternalError    = "TOOL_INTERNAL_ERROR"
)

// Categories of errors in Tool Gateway Contract v1.
const (
	CategoryContract  = "ContractError"
	CategoryPolicy    = "PolicyError"
	CategoryAuth      = "AuthError"
	CategoryExecution = "ExecutionError"
	CategorySystem    = "SystemError"
)

// Severities. Nobody needs to act on an info; a warning resolves by itself; the caller must act on an error, and the
// operator on a critical error.
const (
	SeverityInfo     = "info"
	SeverityWarning  = "warning"
	SeverityError    = "error"
	SeverityCritical = "critical"
)

// JSON-RPC codes.
const (
	rpcParse   = -32700
	rpcRequest = -32600
	rpcParams  = -32602
)
