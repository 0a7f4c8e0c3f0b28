package envelope

import "fmt"

// ToolChanged returns the error for a call of a tool whose definition at its MCP server differs from the approved one.
// Its fix names no command, because a model reads it.
func ToolChanged(toolID string) *Error {
	const fix = "tell the operator of this bus that the tool %.128s waits for approval; do not call it again"
	message := fmt.Sprintf("the tool %.128q has changed at its server and waits for approval", toolID)
	return NewError(CodeToolChanged, message).WithFix(fmt.Sprintf(fix, toolID))
}
