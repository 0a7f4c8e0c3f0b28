package envelope

import (
	"cmp"
	"slices"
	"strings"
)

// Code identifies a kind of error, such as R-TIMEOUT-001. It begins with its class.
type Code string

// ErrorClass is the prefix of a Code that groups codes. Classes never change.
type ErrorClass string

// Values of [ErrorClass].
const (
	ClassRequest      ErrorClass = "I-REQ"
	ClassAuth         ErrorClass = "A-AUTH"
	ClassPrecondition ErrorClass = "P-PRECOND"
	ClassTimeout      ErrorClass = "R-TIMEOUT"
	ClassUpstream     ErrorClass = "R-UPSTREAM"
	ClassCapacity     ErrorClass = "R-CAP"
	ClassTool         ErrorClass = "S-TOOL"
	ClassContract     ErrorClass = "C-CONTRACT"
	ClassData         ErrorClass = "D-DATA"
)

// The codes that Toolbus uses; docs/errors.md describes them. Tools add codes of their own, see [ToolErrorCode].
const (
	CodeMalformed        Code = "I-REQ-MALFORMED"
	CodeSchema           Code = "I-REQ-SCHEMA"
	CodeLimit            Code = "I-REQ-LIMIT"
	CodeInputRef         Code = "I-REQ-INPUT_REF"
	CodeKeyReused        Code = "I-REQ-KEY_REUSED"
	CodeToolUnknown      Code = "I-REQ-TOOL_UNKNOWN"
	CodeFnUnknown        Code = "I-REQ-FN_UNKNOWN"
	CodeUnsafe           Code = "I-REQ-UNSAFE"
	CodeInputState       Code = "I-REQ-INPUT_STATE"
	CodeIdentity         Code = "A-AUTH-IDENTITY"
	CodeForbidden        Code = "A-AUTH-FORBIDDEN"
	CodeToken            Code = "A-AUTH-TOKEN"
	CodeExpired          Code = "A-AUTH-EXPIRED"
	CodeRevoked          Code = "A-AUTH-REVOKED"
	CodeScope            Code = "A-AUTH-SCOPE"
	CodeLane             Code = "A-AUTH-LANE"
	CodeToolInLane       Code = "A-AUTH-TOOL"
	CodeProhibited       Code = "A-AUTH-PROHIBITED"
	CodeCancelled        Code = "P-PRECOND-CANCELLED"
	CodeCancelledUnknown Code = "P-PRECOND-CANCELLED_RUNNING"
	CodeDryRun           Code = "P-PRECOND-DRY_RUN"
	CodeDurability       Code = "P-PRECOND-DURABILITY"
	CodeAttempts         Code = "P-PRECOND-ATTEMPTS"
	CodeToolDisabled     Code = "P-PRECOND-TOOL_DISABLED"
	CodeToolChanged      Code = "P-PRECOND-TOOL_CHANGED"
	CodeInputRequired    Code = "P-PRECOND-INPUT_REQUIRED"
	CodeScopeKey         Code = "P-PRECOND-SCOPE_KEY"
	CodeRunUnknown       Code = "P-PRECOND-RUN_UNKNOWN"
	CodeRunState         Code = "P-PRECOND-RUN_STATE"
	CodePolicyVersion    Code = "P-PRECOND-POLICY_VERSION"
	CodeLocked           Code = "P-PRECOND-LOCKED"
	CodeNotFound         Code = "P-PRECOND-NOT_FOUND"
	CodeChanged          Code = "P-PRECOND-CHANGED"
	CodeLogDamaged       Code = "P-PRECOND-LOG_DAMAGED"
	CodeTimeout          Code = "R-TIMEOUT-001"
	CodeTimeoutUnknown   Code = "R-TIMEOUT-002"
	CodeUpstream         Code = "R-UPSTREAM-001"
	CodeInputMissing     Code = "R-UPSTREAM-INPUT_MISSING"
	CodeCapacity         Code = "R-CAP-001"
	CodeStoreFull        Code = "R-CAP-STORE"
	CodeAuditLag         Code = "R-CAP-AUDIT"
	CodeJoiners          Code = "R-CAP-JOINERS"
	CodeQueue            Code = "R-CAP-QUEUE"
	CodeOpen             Code = "R-CAP-OPEN"
	CodeToolFault        Code = "S-TOOL-001"
	CodeToolFaultAgain   Code = "S-TOOL-002"
	CodeToolUnknownState Code = "S-TOOL-UNKNOWN"
	CodeUnavailable      Code = "S-TOOL-UNAVAILABLE"
	CodeLost             Code = "S-TOOL-LOST"
	CodeInternal         Code = "S-TOOL-INTERNAL"
	CodeDigest           Code = "C-CONTRACT-DIGEST"
	CodeVersion          Code = "C-CONTRACT-VERSION"
	CodeOutput           Code = "C-CONTRACT-OUTPUT"
	CodeOutputLimit      Code = "C-CONTRACT-OUTPUT_LIMIT"
	CodeWriteTarget      Code = "C-CONTRACT-WRITE_TARGET"
	CodeToolProtocol     Code = "C-CONTRACT-PROTOCOL"
	CodeChecksum         Code = "D-DATA-CHECKSUM"
	CodePayloadMissing   Code = "D-DATA-PAYLOAD_MISSING"
)

// Class returns the class of c, or "" if c has no known class.
func (c Code) Class() ErrorClass {
	for _, class := range classes {
		if strings.HasPrefix(string(c), string(class)+"-") {
			return class
		}
	}
	return ""
}

// classes holds the known classes. None is a prefix of another one.
var classes = [...]ErrorClass{
	ClassRequest, ClassAuth, ClassPrecondition,
	ClassTimeout, ClassUpstream, ClassCapacity, ClassTool, ClassContract, ClassData,
}

// Classes returns the known classes.
func Classes() []ErrorClass { return slices.Clone(classes[:]) }

// The table by code, and what holds for a class. Neither changes.
var (
	rows      = byCode(table())
	classRows = defaults()
)

func byCode(rows []CodeInfo) map[Code]CodeInfo {
	m := make(map[Code]CodeInfo, len(rows))
	for _, r := range rows {
		m[r.Code] = r
	}
	return m
}

// Codes returns the rows of all codes of Toolbus, in the order of the documentation.
func Codes() []CodeInfo { return table() }

// Lookup returns the row of c. For an unknown code it returns the row of the class, and without a known class that of
// [CodeToolFault].
func Lookup(c Code) CodeInfo {
	if r, ok := rows[c]; ok {
		return r
	}
	r := classRows[cmp.Or(c.Class(), ClassTool)]
	r.Code = c
	return r
}

// Status returns the status of a response with the code.
func (c Code) Status() Status { return Lookup(c).Status }

// Retryable reports whether the caller may repeat the call with the same key.
func (c Code) Retryable() bool { return c.Status() == RetryableError }

// AutoRetry reports whether a client may repeat the call without asking its caller. It implies Retryable.
func (c Code) AutoRetry() bool { return Lookup(c).AutoRetry }

// ToolErrorCode returns the code of an error that a tool declares: fetch_failed of class R-UPSTREAM is
// R-UPSTREAM-FETCH_FAILED. Each character except letters and digits becomes "_". If the result would be a code of
// Toolbus, the name gets the prefix TOOL_.
func ToolErrorCode(class ErrorClass, name string) Code {
	if _, known := classRows[class]; !known {
		class = ClassTool
	}
	code := Code(string(class) + "-" + subcode(name))
	if _, ours := rows[code]; ours {
		code = Code(string(class) + "-TOOL_" + subcode(name))
	}
	return code
}

func subcode(name string) string {
	if name == "" {
		return "UNNAMED"
	}
	name = name[:min(len(name), MaxCode-len("P-PRECOND-TOOL_"))]
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}
