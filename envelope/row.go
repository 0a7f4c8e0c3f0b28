package envelope

// CodeInfo is one line of the taxonomy: all that is known of a code. Everything else that speaks of
// errors (documentation, bindings, doors) is derived from it.
type CodeInfo struct {
	Code   Code
	Status Status
	// AutoRetry says that a client may ask again on its own. A retryable code without it is
	// safe to ask again, but somebody wanted the call to end.
	AutoRetry bool
	// RetryAfterMS is the back-off hint of a retryable code, unless the error brings its own.
	RetryAfterMS int64
	// Effect is what the code alone says of the tool's effect: none when nothing ran,
	// otherwise unknown, until whoever makes the error knows better.
	Effect      Effect
	Message     string
	Fix         string
	LikelyCause string
	HTTPStatus  int
	// MCP is the JSON-RPC code of the protocol error in MCP; 0 means a tool result that
	// says isError, which a model can react to.
	MCP      int
	Gateway  string // error code of Tool Gateway v1
	Category string // one of those below
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

// Categories of errors, as callers of other gateways know them.
const (
	CategoryContract  = "ContractError"
	CategoryPolicy    = "PolicyError"
	CategoryAuth      = "AuthError"
	CategoryExecution = "ExecutionError"
	CategorySystem    = "SystemError"
)

// Severities: an info needs nobody, a warning passes by itself, an error needs the caller, a
// critical one the operator.
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
