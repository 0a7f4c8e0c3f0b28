package operation

import (
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// table has the rows below, in their order.
var table []Info

// row adds a row to the table.
func row[Q, A any](name string, roles []Role, properties ...func(*Info)) Operation[Q, A] {
	i := Info{Name: name, Roles: roles}
	for _, set := range properties {
		set(&i)
	}
	table = append(table, i)
	return Operation[Q, A]{i}
}

// Roles of rows. callers ask about their own calls and runs, operators with ofTenant also about those of others.
var (
	callers   = []Role{Agent, Operator}
	auditors  = []Role{Auditor, Operator}
	operators = []Role{Operator}
	readers   = []Role{Agent, Gateway, Auditor, Operator}
	everybody = append([]Role{Executor}, readers...)
)

func toAll(i *Info)       { i.All = true }
func act(i *Info)         { i.Act = true }
func own(i *Info)         { i.Own = true }
func ofTenant(i *Info)    { i.Tenant = true }
func withExpired(i *Info) { i.Expired = true }

// Operations about calls and tools.
var (
	Result   = row[envelope.CallRef, envelope.ResultResponse](subjects.OpResult, callers, ofTenant)
	Cancel   = row[envelope.CallRef, envelope.CancelResponse](subjects.OpCancel, callers)
	Answer   = row[envelope.AnswerRequest, struct{}](subjects.OpAnswer, callers)
	CallList = row[envelope.OpenCallsRequest, envelope.OpenCallsResponse](subjects.OpCallList, callers, ofTenant)
	Why      = row[envelope.CallRef, envelope.WhyResponse](subjects.OpWhy, callers, ofTenant)
	Trace    = row[envelope.CallRef, envelope.TraceResponse](subjects.OpTrace, callers, ofTenant)
	Chunks   = row[envelope.ChunksRequest, envelope.ChunksResponse](subjects.OpChunks, callers)
	Payload  = row[envelope.PayloadRequest, envelope.PayloadResponse](subjects.OpPayload, callers)
	Describe = row[envelope.DescribeRequest, envelope.DescribeResponse](subjects.OpDescribe, readers)
)

// Operations about the deployment and its record.
var (
	Inventory = row[struct{}, envelope.Inventory](subjects.OpInventory, operators, toAll)
	Executors = row[envelope.ExecutorsRequest, envelope.ExecutorsResponse](subjects.OpExecutors, operators)
	Health    = row[struct{}, envelope.Health](subjects.OpHealth, operators)
	Stored    = row[envelope.StreamReadRequest, envelope.StreamReadResponse](subjects.OpStored, auditors)
	Replay    = row[envelope.ReplayRequest, envelope.ResultResponse](subjects.OpReplay, operators)
)

// Operations about tokens and keys.
var (
	TokenRenew  = row[struct{}, envelope.TokenResponse](subjects.OpTokenRenew, everybody, own, withExpired)
	TokenNarrow = row[envelope.NarrowRequest, envelope.TokenResponse](subjects.OpTokenNarrow, readers, own)
	TokenIssue  = row[envelope.IssueRequest, envelope.TokenResponse](subjects.OpTokenIssue, operators, act)
	TokenRevoke = row[envelope.RevokeRequest, envelope.RevokeResponse](subjects.OpTokenRevoke, operators, act)
	TokenList   = row[envelope.CredentialsRequest, envelope.CredentialsResponse](subjects.OpTokenList, operators)
	KeyRotate   = row[envelope.RotateRequest, envelope.RotateResponse](subjects.OpKeyRotate, operators, act)
)

// Operations about safety locks.
var (
	Lock     = row[envelope.LockRequest, envelope.LocksResponse](subjects.OpLock, operators, act)
	Unlock   = row[envelope.LockRequest, envelope.LocksResponse](subjects.OpUnlock, operators, act)
	LockKill = row[envelope.LockKillRequest, envelope.LockKillResponse](subjects.OpLockKill, operators)
	Locks    = row[struct{}, envelope.LocksResponse](subjects.OpLocks, operators)
)

// Operations about damaged logs.
var (
	Repair  = row[envelope.RepairRequest, envelope.RepairsResponse](subjects.OpRepair, operators, act)
	Repairs = row[struct{}, envelope.RepairsResponse](subjects.OpRepairs, operators)
)

// Operations about the policy.
var (
	PolicyPart    = row[envelope.PolicyPartRequest, struct{}](subjects.OpPolicyPart, operators)
	PolicyPush    = row[envelope.PolicyPushRequest, envelope.PolicyPushResponse](subjects.OpPolicyPush, operators, act)
	PolicyHistory = row[struct{}, envelope.PolicyHistoryResponse](subjects.OpPolicyHistory, operators)
	PolicyRead    = row[envelope.PolicyReadRequest, envelope.PolicyReadResponse](subjects.OpPolicyRead, operators)
)

// Operations about runs.
var (
	RunStart  = row[envelope.RunStartRequest, envelope.RunResponse](subjects.OpRunStart, callers, act)
	RunChange = row[envelope.RunChangeRequest, envelope.RunResponse](subjects.OpRunChange, callers, act)
	RunRepin  = row[envelope.RunRequest, envelope.RunResponse](subjects.OpRunRepin, operators, act)
	RunShow   = row[envelope.RunRequest, envelope.RunResponse](subjects.OpRunShow, operators)
	RunList   = row[envelope.RunListRequest, envelope.RunListResponse](subjects.OpRunList, operators)
)
