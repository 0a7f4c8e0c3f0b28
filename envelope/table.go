package envelope

// table returns the taxonomy of the codes that Toolbus itself uses, by class. A test proves that
// every constant of taxonomy.go has exactly one row, and every row all its fields.
func table() []CodeInfo {
	return []CodeInfo{
		{
			CodeMalformed, InvalidRequest, false, 0, EffectNone, "The request cannot be read",
			"send one I-JSON or msgpack envelope with the content type that it has",
			"the sender does not use a Toolbus client, or a proxy cut the body",
			400, rpcParse, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeSchema, InvalidRequest, false, 0, EffectNone, "The request breaks its schema",
			"correct the places listed in details.violations", "a field is missing, misspelt or has the wrong type",
			422, 0, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeLimit, InvalidRequest, false, 0, EffectNone, "The request is larger or deeper than allowed",
			"make the request smaller; pass large data by reference",
			"a document was put into the input instead of a reference to it",
			413, rpcRequest, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeInputRef, InvalidRequest, false, 0, EffectNone, "The reference to the input cannot be read",
			"send the header Tb-Input-Ref as sha256:<64 lower-case hex digits>;<bytes>, with input null; or no such header",
			"the header was written by hand, or was sent with an input in the request",
			400, rpcParams, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeKeyReused, InvalidRequest, false, 0, EffectNone, "The idempotency key belongs to a call with another input",
			"use a key that depends on the input, or a fresh one", "the key is a constant, or leaves out part of the input",
			409, 0, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeToolUnknown, InvalidRequest, false, 0, EffectNone, "No such tool",
			"list the tools with `toolbus tools list`, and check the spelling of tool_id",
			"the tool was never registered, or its id is misspelt",
			404, rpcParams, GatewayNotImplemented, CategoryContract, SeverityError,
		}, {
			CodeFnUnknown, InvalidRequest, false, 0, EffectNone, "The tool has no such function",
			"use one of the functions that the tool describes", "fn is misspelt, or belongs to another version of the tool",
			404, rpcParams, GatewayNotImplemented, CategoryContract, SeverityError,
		}, {
			CodeUnsafe, InvalidRequest, false, 0, EffectNone, "An address, path or command in the input is not safe",
			"correct the places listed in details.violations",
			"an address is not http or https, a path leads out of its folder, or a command is several",
			422, 0, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeInputState, InvalidRequest, false, 0, EffectNone, "The state of the answer names no question to this caller",
			"call again without an answer, and answer the question that then comes, with the same tool and input",
			"the state was changed, has expired, or is from another caller, tool or input",
			400, rpcParams, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeIdentity, TerminalError, false, 0, EffectNone, "The caller's identity could not be verified",
			"send the actor_id of the credential, and the subject that has the same tenant, actor and tool",
			"the request names another actor than its subject or its connection",
			401, 0, GatewayDenied, CategoryAuth, SeverityError,
		}, {
			CodeForbidden, TerminalError, false, 0, EffectNone, "The caller may not make this call",
			"connect as a user whose permissions on the server cover this tenant and actor, or act as those that they cover",
			"the permissions of the user on the NATS server do not cover this tenant and actor; the cause names the subject",
			403, 0, GatewayDenied, CategoryAuth, SeverityError,
		}, {
			// The effect of this one and the next three is unknown: a call that went on before may be asked for again by
			// somebody whose token has ended, or says less now, and no log is read for those.
			CodeToken, TerminalError, false, 0, EffectUnknown, "The token is missing, or not to be believed",
			"send the token that the deployment has issued, in the header Tb-Token",
			"the token was left out, cut short, made for another deployment, or signed with a key that is not used any more",
			401, 0, GatewayDenied, CategoryAuth, SeverityError,
		}, {
			CodeExpired, RetryableError, true, 200, EffectUnknown, "The token has expired",
			"renew the token, and send the request again with the new one", "the token was not renewed in time",
			401, 0, GatewayDenied, CategoryAuth, SeverityWarning,
		}, {
			CodeRevoked, TerminalError, false, 0, EffectUnknown, "The token was revoked",
			"ask an operator for a new one",
			"an operator revoked it, the token that it was narrowed from, or all of its actor; or its key is not, or no " +
				"longer, of this bus",
			401, 0, GatewayDenied, CategoryAuth, SeverityError,
		}, {
			CodeScope, TerminalError, false, 0, EffectUnknown, "The token does not cover the request",
			"ask for a token with the scope, the role, the run or the lane that the message names; do without what needs it",
			"the token was issued, or narrowed, for less",
			403, 0, GatewayDenied, CategoryAuth, SeverityError,
		}, {
			CodeLane, TerminalError, false, 0, EffectNone, "The role of the caller may not use this lane",
			"call in a lane that roles.yaml allows to the role",
			"lane_id is misspelt, or the role was given other lanes",
			403, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeToolInLane, TerminalError, false, 0, EffectNone, "The tool may not be called in this lane",
			"call it in a lane that allows it",
			"lanes.yaml does not list the tool for the lane, or its entry or manifest does not list the lane",
			403, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeProhibited, TerminalError, false, 0, EffectNone, "The call asks for what is prohibited",
			"leave out what the message names, or call in a lane that does not prohibit it",
			"an argument, a tag or the effect class of the tool is a prohibited flag, or the lane is not for writes",
			403, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeCancelled, RetryableError, false, 100, EffectUnknown, "The call was cancelled",
			"call again with the same key if the result is wanted after all", "the owner of the call cancelled it",
			409, 0, GatewayDenied, CategoryPolicy, SeverityInfo,
		}, {
			CodeCancelledUnknown, TerminalError, false, 0, EffectUnknown,
			"The call was cancelled while it ran; its effect is unknown",
			"find out whether the effect took place before calling again with a new key",
			"the owner of the call cancelled it after the tool had started",
			409, 0, GatewayDenied, CategoryPolicy, SeverityWarning,
		}, {
			CodeDryRun, TerminalError, false, 0, EffectNone, "The tool has no dry run",
			"call without dry_run, or use a tool whose capabilities include it",
			"the manifest does not declare capabilities.dry_run",
			409, 0, GatewayNotImplemented, CategoryContract, SeverityError,
		}, {
			CodeDurability, TerminalError, false, 0, EffectNone, "The deployment cannot run this tool safely",
			"start servers that sync each write, as those of profile single-durable or durable do, and dispatchers with " +
				"--sync always; or set accept_rerun_after_power_loss in the manifest",
			"a side-effectful tool could run twice after a power cut here",
			503, 0, GatewayDenied, CategoryPolicy, SeverityCritical,
		}, {
			CodeAttempts, TerminalError, false, 0, EffectNone, "The call has used up its attempts",
			"look into the earlier outcomes, then call with a new key",
			"five attempts that executors took ended in retryable errors, or the outcomes of many more leave no room",
			409, 0, GatewayDependencyDown, CategoryPolicy, SeverityError,
		}, {
			CodeToolDisabled, TerminalError, false, 0, EffectNone, "The tool may not be called now",
			"ask the tool's owner, or use another tool", "the tool is planned or disabled",
			403, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			// A model reads this, so it says what a model can do. The command of the operator stands where operators look.
			CodeToolChanged, TerminalError, false, 0, EffectNone, "The tool has changed at its server and waits for approval",
			"tell the operator of this bus that the tool waits for approval; do not call it again",
			"the server of the tool defines it otherwise than it was approved",
			403, 0, GatewayDenied, CategoryPolicy, SeverityCritical,
		}, {
			CodeInputRequired, TerminalError, false, 0, EffectUnknown, "The tool asks for further input",
			"answer details.input_requests in a new call: context.mcp_input with details.input_state and the responses",
			"the server of the tool needs input that is not in the arguments",
			409, 0, GatewayDenied, CategoryPolicy, SeverityInfo,
		}, {
			CodeScopeKey, TerminalError, false, 0, EffectNone, "The call lacks a scope key",
			"add the scope keys that the message names to context.scope (--scope KEY=VALUE of toolbus call)",
			"the lane or the tool needs the key, for example a case_id",
			412, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeRunUnknown, TerminalError, false, 0, EffectNone, "The run does not exist",
			"start a run (`toolbus runs start`), and name its run_id",
			"run_id is misspelt, or the run belongs to another tenant or actor",
			404, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeRunState, TerminalError, false, 0, EffectNone, "The run is not in a state in which this lane allows calls",
			"resume the run if it is paused (`toolbus runs resume`), or start another one (`toolbus runs start`)",
			"the run was paused or closed",
			409, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodePolicyVersion, TerminalError, false, 0, EffectNone, "The run is bound to other versions of the policy",
			"start another run, or have an operator move this one to the policy in force (`toolbus runs repin`)",
			"another policy is in force than the run was started with: one was pushed, or the bus lost its policy",
			409, 0, GatewayDenied, CategoryPolicy, SeverityError,
		}, {
			CodeLocked, RetryableError, false, 1000, EffectNone, "The call is locked",
			"wait until an operator has cleared the lock, then call again with the same key",
			"an operator has set a safety lock on all calls, on the lane or on the tool: `toolbus lock`",
			423, 0, GatewayDenied, CategoryPolicy, SeverityWarning,
		}, {
			CodeNotFound, TerminalError, false, 0, EffectNone, "There is no such call",
			"use the reference that the accepted message named; outcomes are kept for the tool's retention",
			"the reference is wrong, belongs to somebody else, or has expired",
			404, rpcParams, GatewayInvalidArguments, CategoryContract, SeverityError,
		}, {
			CodeChanged, RetryableError, false, 200, EffectNone, "What was to be changed has changed meanwhile",
			"look at it as it is now, and decide again",
			"another command of an operator came first, or a copy of this one came late",
			409, 0, GatewayDenied, CategoryPolicy, SeverityWarning,
		}, {
			CodeLogDamaged, TerminalError, false, 0, EffectUnknown, "The log of the call is damaged",
			"find out whether the call took effect; an operator can free the key if it did not",
			"the server has lost events of the call that it had stored",
			503, 0, GatewayDependencyDown, CategorySystem, SeverityCritical,
		}, {
			CodeTimeout, RetryableError, true, 200, EffectUnknown, "The call did not end before its deadline",
			"call again with the same key, and with a larger timeout_ms", "the tool is slow or its queue is long",
			504, 0, GatewayTimeout, CategoryPolicy, SeverityWarning,
		}, {
			CodeTimeoutUnknown, TerminalError, false, 0, EffectUnknown,
			"The call did not end before its deadline; its effect is unknown",
			"find out whether the effect took place before calling again with a new key, and with a larger timeout_ms",
			"a side-effectful tool was cut off while it ran",
			504, 0, GatewayTimeout, CategoryPolicy, SeverityError,
		}, {
			CodeUpstream, RetryableError, true, 500, EffectUnknown, "A service behind the tool failed",
			"call again with the same key after details.retry_after_ms",
			"the upstream service is down, overloaded or unreachable",
			502, 0, GatewayDependencyDown, CategoryExecution, SeverityWarning,
		}, {
			// It is not of class D-DATA: builds before it take a code of that class that they do not know for terminal.
			CodeInputMissing, RetryableError, true, 200, EffectNone, "The input is not in the payload store",
			"store the input again, and call again with the same key",
			"the input has expired, was never completely stored, or is another actor's",
			410, 0, GatewayDependencyDown, CategorySystem, SeverityError,
		}, {
			CodeCapacity, RetryableError, true, 1000, EffectNone, "No capacity for this call now",
			"call again with the same key after details.retry_after_ms", "a rate or concurrency limit is reached",
			429, 0, GatewayDependencyDown, CategoryPolicy, SeverityWarning,
		}, {
			CodeStoreFull, RetryableError, true, 5000, EffectNone, "The call log is full",
			"call again later; the operator must enlarge the calls bucket or shorten retention",
			"more calls are kept than the bucket has room for",
			503, 0, GatewayDependencyDown, CategorySystem, SeverityCritical,
		}, {
			CodeAuditLag, RetryableError, true, 2000, EffectNone, "The audit record is too far behind to take more calls",
			"call again later; the operator must check the AUDIT stream", "the audit stream is full or its projector is stuck",
			503, 0, GatewayDependencyDown, CategorySystem, SeverityCritical,
		}, {
			CodeJoiners, RetryableError, true, 1000, EffectUnknown, "Too many callers wait for this call already",
			"ask for its result later, with the same key", "very many callers share one idempotency key",
			429, 0, GatewayDependencyDown, CategoryPolicy, SeverityWarning,
		}, {
			CodeQueue, RetryableError, true, 1000, EffectUnknown, "Too many messages of this sender wait already",
			"send fewer at once, and this one again with the same key after details.retry_after_ms",
			"an actor, or all of its tenant, sends faster than a dispatcher may take from it",
			429, 0, GatewayDependencyDown, CategoryPolicy, SeverityWarning,
		}, {
			CodeOpen, RetryableError, true, 1000, EffectNone, "Too many calls of this sender are open already",
			"wait for the outcomes of earlier calls, or cancel some; then call again with the same key",
			"an actor, or all of its tenant, makes calls faster than executors end them",
			429, 0, GatewayDependencyDown, CategoryPolicy, SeverityWarning,
		}, {
			CodeToolFault, RetryableError, true, 200, EffectUnknown, "The tool failed",
			"call again once with the same key; report it to the tool's owner if it repeats", "a fault in the tool",
			500, 0, GatewayInternalError, CategoryExecution, SeverityError,
		}, {
			CodeToolFaultAgain, TerminalError, false, 0, EffectUnknown, "The tool failed again",
			"report it to the tool's owner", "a fault in the tool that running again does not mend",
			500, 0, GatewayInternalError, CategoryExecution, SeverityCritical,
		}, {
			CodeToolUnknownState, TerminalError, false, 0, EffectUnknown,
			"The tool ended without saying whether its effect took place",
			"find out whether the effect took place before calling again with a new key",
			"the tool or its executor died while a side-effectful call ran",
			500, 0, GatewayInternalError, CategoryExecution, SeverityCritical,
		}, {
			CodeUnavailable, RetryableError, true, 1000, EffectNone, "The tool is not available now",
			"call again with the same key later, or start executors for its pool",
			"no healthy executor offers the tool, none was free in time, or its program was edited just now",
			503, 0, GatewayDependencyDown, CategorySystem, SeverityError,
		}, {
			CodeLost, TerminalError, false, 0, EffectUnknown,
			"The call was lost: executors took it five times and none came back",
			"look at the dead letter of the call (`toolbus dead list`), and report it to the tool's owner",
			"the call brings its executor down",
			500, 0, GatewayInternalError, CategorySystem, SeverityCritical,
		}, {
			CodeInternal, RetryableError, false, 1000, EffectUnknown, "Toolbus itself failed at this request",
			"report it with what the log of the dispatchers says; the same call may be made again with the same key",
			"a fault in Toolbus that this request brings out",
			500, 0, GatewayInternalError, CategorySystem, SeverityCritical,
		}, {
			CodeVersion, TerminalError, false, 0, EffectNone, "No single version of the tool fits the request",
			"ask for the version that `toolbus tools show` names", "the range matches no version, or several equally well",
			409, 0, GatewayNotImplemented, CategoryContract, SeverityError,
		}, {
			CodeDigest, TerminalError, false, 0, EffectNone, "The program of the tool is not the one that its manifest names",
			"tell the tool's owner; the program or the digest in the manifest has to be replaced",
			"the program was built again, or was changed", 409, 0, GatewayDependencyDown, CategoryContract, SeverityCritical,
		}, {
			CodeOutput, TerminalError, false, 0, EffectUnknown, "The tool's output breaks its own schema",
			"report it to the tool's owner, with details.violations", "the tool and its manifest do not agree",
			502, 0, GatewayInternalError, CategoryContract, SeverityCritical,
		}, {
			CodeOutputLimit, TerminalError, false, 0, EffectUnknown, "The tool's output is larger than allowed",
			"ask for less, or have limits.output_bytes_max of the tool raised",
			"the result is larger than the manifest foresees",
			502, 0, GatewayInternalError, CategoryContract, SeverityError,
		}, {
			CodeWriteTarget, TerminalError, false, 0, EffectApplied, "The tool wrote to a target that it may not write to",
			"look at side_effects; the operator adds the target to write_targets, or locks the tool",
			"the tool reported a side effect outside its write_targets in the policy",
			502, 0, GatewayInternalError, CategoryPolicy, SeverityCritical,
		}, {
			CodeToolProtocol, TerminalError, false, 0, EffectUnknown, "An answer does not follow the protocol",
			"report it to the tool's owner", "something other than one well-formed answer came back",
			502, 0, GatewayInternalError, CategoryContract, SeverityCritical,
		}, {
			CodeChecksum, TerminalError, false, 0, EffectUnknown, "A payload does not match its checksum",
			"find out how the call ended before sending the payload again in a new one; the operator must check the store",
			"the payload was damaged or replaced in the store",
			502, 0, GatewayInternalError, CategorySystem, SeverityCritical,
		}, {
			CodePayloadMissing, TerminalError, false, 0, EffectUnknown, "A payload is not in the store any more",
			"see with `toolbus why` how the call ended; what it has done stands without the payload",
			"the output of the call, or its chunks, have expired",
			410, 0, GatewayInternalError, CategorySystem, SeverityError,
		},
	}
}

// defaults returns the rows of the classes: what holds for a code that Toolbus does not know,
// so for the subcodes of tools.
func defaults() map[ErrorClass]CodeInfo {
	return map[ErrorClass]CodeInfo{
		ClassRequest: {
			"", InvalidRequest, false, 0, EffectUnknown, "The tool refused the request",
			"correct the input as the message says, then call with a new key", "the input is not what the tool can work on",
			400, 0, GatewayInvalidArguments, CategoryContract, SeverityError,
		},
		ClassAuth: {
			"", TerminalError, false, 0, EffectUnknown, "The tool was not authorised",
			"renew the credential that the tool uses, or its permissions, then call with a new key",
			"an upstream refused the tool's credential",
			403, 0, GatewayDenied, CategoryAuth, SeverityError,
		},
		ClassPrecondition: {
			"", TerminalError, false, 0, EffectUnknown, "A precondition of the tool does not hold",
			"bring about what the message names, then call with a new key", "a resource is missing or in the wrong state",
			412, 0, GatewayDenied, CategoryPolicy, SeverityError,
		},
		ClassTimeout: {
			"", RetryableError, true, 200, EffectUnknown, "The tool ran out of time",
			"call again with the same key, and with a larger timeout_ms", "the tool or its upstream is slow",
			504, 0, GatewayTimeout, CategoryPolicy, SeverityWarning,
		},
		ClassUpstream: {
			"", RetryableError, true, 500, EffectUnknown, "A service behind the tool failed",
			"call again with the same key after details.retry_after_ms",
			"the upstream service is down, overloaded or unreachable",
			502, 0, GatewayDependencyDown, CategoryExecution, SeverityWarning,
		},
		ClassCapacity: {
			"", RetryableError, true, 1000, EffectUnknown, "The tool has no capacity now",
			"call again with the same key after details.retry_after_ms", "a rate or concurrency limit is reached",
			429, 0, GatewayDependencyDown, CategoryPolicy, SeverityWarning,
		},
		ClassTool: {
			"", RetryableError, true, 200, EffectUnknown, "The tool failed",
			"call again once with the same key; report it to the tool's owner if it repeats", "a fault in the tool",
			500, 0, GatewayInternalError, CategoryExecution, SeverityError,
		},
		ClassContract: {
			"", TerminalError, false, 0, EffectUnknown, "The tool and the request do not agree on the contract",
			"bring the versions into line, then call with a new key", "agent and tool use different versions",
			409, 0, GatewayNotImplemented, CategoryContract, SeverityError,
		},
		ClassData: {
			"", TerminalError, false, 0, EffectUnknown, "The tool's data is damaged",
			"repair the data that the message names, then call with a new key", "stored data failed a check",
			422, 0, GatewayInternalError, CategoryExecution, SeverityError,
		},
	}
}
