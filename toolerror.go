package toolbus

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// said converts the error of a function into one that adapters return. An error without a [ToolError] stays as it is,
// and counts as a fault of the tool.
func said(err error) error {
	declared, ok := errors.AsType[*ToolError](err)
	if !ok || declared == nil {
		return err
	}
	e := &tool.Error{
		Code: declared.Name, Message: declared.Message, Effect: declared.Effect, RetryAfter: declared.RetryAfter,
	}
	if declared.Details != nil {
		details, bad := json.Marshal(declared.Details, asJSON)
		if bad != nil {
			return fmt.Errorf("%w; its details: %w", err, bad)
		}
		e.Details = details
	}
	return e
}
