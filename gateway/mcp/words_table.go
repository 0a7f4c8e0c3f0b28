package mcp

import "github.com/seed-018f16cc/toolbus/envelope"

// advice is the text for a model about an error code: the problem and the next step.
type advice struct{ problem, do string }

// Advice that several codes share.
const (
	tellUser   = "tell the user; to call again does not help"
	askKey     = "tell the user that the client has to send it; it is not one of the arguments"
	askAccess  = "tell the user that the access to this tool has to be set up again"
	checkFirst = "find out what was done before you call again"
	later      = "try again later, and tell the user if it repeats"
	fewer      = "make fewer calls at once, and try again after a pause"
)

// words returns the advice for a code.
func words(code envelope.Code) advice {
	if a, ok := byCode[code]; ok {
		return a
	}
	return byClass[code.Class()]
}

// foreign reports whether a code is one that the adapter for MCP servers uses for undeclared errors.
func foreign(code envelope.Code) bool {
	_, is := ofServers[code]
	return is
}

// byCode holds the advice for codes of the bus and of the adapter for MCP servers.
var byCode = merge(ofBus, ofServers)

func merge(all ...map[envelope.Code]advice) map[envelope.Code]advice {
	out := map[envelope.Code]advice{}
	for _, some := range all {
		for code, a := range some {
			out[code] = a
		}
	}
	return out
}

var ofBus = map[envelope.Code]advice{
	envelope.CodeMalformed:   {"The call could not be read", "send the arguments as one JSON object"},
	envelope.CodeSchema:      {"The arguments do not fit the tool", "correct these places"},
	envelope.CodeLimit:       {"The arguments are too large, or nested too deep", "send less at once"},
	envelope.CodeInputRef:    {"The arguments could not be read", "send them again"},
	envelope.CodeKeyReused:   {"This request was made before with other arguments", "make it again as a new call"},
	envelope.CodeToolUnknown: {"There is no such tool", "use one of the tools that are listed"},
	envelope.CodeFnUnknown:   {"The tool has no such function", "use one of the tools that are listed"},
	envelope.CodeUnsafe:      {"The arguments are not safe", "correct these places"},
	envelope.CodeInputState:  {"The answer belongs to no question of this tool", "call the tool without an answer"},

	envelope.CodeIdentity:  {"The caller could not be verified", askAccess},
	envelope.CodeForbidden: {"This caller may not make this call", tellUser},
	envelope.CodeToken:     {"The access of this caller is not valid", askAccess},
	envelope.CodeExpired:   {"The access of this caller has expired", askAccess},
	envelope.CodeRevoked:   {"The access of this caller was withdrawn", askAccess},
	envelope.CodeScope:     {"The access of this caller is not for this call", "do without this tool, or tell the user"},

	envelope.CodeLane:       {"This caller may not work here", tellUser},
	envelope.CodeToolInLane: {"The tool may not be called here", "use another tool, or tell the user"},
	envelope.CodeProhibited: {"The call asks for what is prohibited", "leave out what is named, or tell the user"},

	envelope.CodeScopeKey:      {"The call does not say what it is for", "tell the user what is missing"},
	envelope.CodeRunUnknown:    {"The run of this call does not exist", tellUser},
	envelope.CodeRunState:      {"The run of this call is paused or closed", tellUser},
	envelope.CodePolicyVersion: {"The rules have changed since the run began", "tell the user that it has to start again"},

	envelope.CodeCancelled:        {"The call was cancelled", "call again only if the result is still wanted"},
	envelope.CodeCancelledUnknown: {"The call was cancelled while it ran", checkFirst},
	envelope.CodeDryRun:           {"The tool has no trial run", "call it without one, if its work is wanted"},
	envelope.CodeDurability:       {"The tool cannot run safely on this system", tellUser},
	envelope.CodeAttempts:         {"The call was tried too often", "go by the earlier errors before you make a new call"},
	envelope.CodeToolDisabled:     {"The tool may not be called now", "use another tool, or tell the user"},
	envelope.CodeToolChanged: {"The tool has changed at its server and waits for approval",
		"tell the operator of this bus that this tool waits for approval, and do not call it again"},
	envelope.CodeInputRequired: {"The tool asks for further input, which cannot be given here",
		"put all that it needs into the arguments, or use another tool"},
	envelope.CodeLocked:     {"An operator has locked this call", "do without this tool for now, or tell the user"},
	envelope.CodeNotFound:   {"There is no such call", "call the tool again if its result is needed"},
	envelope.CodeChanged:    {"Something has changed meanwhile", "try again"},
	envelope.CodeLogDamaged: {"What became of this call was lost", checkFirst},

	envelope.CodeTimeout:        {"The call did not end in time", "ask for less at once, or try again later"},
	envelope.CodeTimeoutUnknown: {"The call did not end in time", checkFirst},
	envelope.CodeUpstream:       {"A service behind the tool failed", later},
	envelope.CodeInputMissing:   {"The arguments were lost before the tool got them", "call again"},
	envelope.CodeCapacity:       {"There is no capacity for this call now", fewer},
	envelope.CodeStoreFull:      {"There is no room to store this call now", later},
	envelope.CodeAuditLag:       {"Calls cannot be recorded fast enough now", later},
	envelope.CodeJoiners:        {"Too many callers wait for this call", later},
	envelope.CodeQueue:          {"Too many requests of this caller wait already", fewer},
	envelope.CodeOpen:           {"Too many calls of this caller are open", fewer},

	envelope.CodeToolFault:        {"The tool failed", "try again once, and tell the user if it repeats"},
	envelope.CodeToolFaultAgain:   {"The tool failed again", "use another tool, or tell the user"},
	envelope.CodeToolUnknownState: {"The tool ended without saying whether it did its work", checkFirst},
	envelope.CodeUnavailable:      {"The tool is not available now", later},
	envelope.CodeLost:             {"The call was lost", checkFirst},
	envelope.CodeInternal:         {"The system behind the tools failed at this call", later},

	envelope.CodeVersion:        {"There is no such version of the tool", "call it without asking for a version"},
	envelope.CodeOutput:         {"The answer of the tool is not what it promises", tellUser},
	envelope.CodeWriteTarget:    {"The tool wrote where it may not write", tellUser},
	envelope.CodeOutputLimit:    {"The answer of the tool is too large", "ask for less at once"},
	envelope.CodeToolProtocol:   {"The answer of the tool could not be read", tellUser},
	envelope.CodeChecksum:       {"The data of this call was damaged", "make a new call if the work was not done"},
	envelope.CodePayloadMissing: {"The data of this call has expired", "make a new call if the work was not done"},
}

var ofServers = map[envelope.Code]advice{
	"P-PRECOND-TOOL_ERROR":          {"The tool reported an error", "correct the arguments and try again if that helps"},
	"I-REQ-REQUEST_REFUSED":         {"The server refused the request", "correct the arguments as its words say"},
	"S-TOOL-SERVER_ERROR":           {"The server failed", "try again once, and tell the user if it repeats"},
	"R-CAP-SERVER_BUSY":             {"The server was called too often", "wait, longer each time, and call again"},
	"A-AUTH-SERVER_FORBIDS":         {"The server refused access", askAccess},
	"A-AUTH-SERVER_LOGIN":           {"The login at the server of the tool has ended", askAccess},
	"R-UPSTREAM-SERVER_UNREACHABLE": {"The server could not be reached", later},
}

// byClass holds the advice for codes that tools declare without a fix of their own.
var byClass = map[envelope.ErrorClass]advice{
	envelope.ClassRequest:      {"The tool refused the request", "correct the arguments as its words say"},
	envelope.ClassAuth:         {"The tool was refused access", askAccess},
	envelope.ClassPrecondition: {"The tool cannot do this now", "bring about what its words name, and then call again"},
	envelope.ClassTimeout:      {"The tool ran out of time", "ask for less at once, or try again later"},
	envelope.ClassUpstream:     {"A service behind the tool failed", later},
	envelope.ClassCapacity:     {"The tool has no capacity now", "wait before you call it again, longer each time"},
	envelope.ClassTool:         {"The tool failed", "try again once, and tell the user if it repeats"},
	envelope.ClassContract:     {"The tool and the call do not agree", tellUser},
	envelope.ClassData:         {"The data of the tool is damaged", tellUser},
}
