# The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON. It needs jq.
set -eu

name=$(jq -r .input.name)

if [ "$name" = nobody ]; then
	# The manifest declares the error. The effect says whether the call has changed anything.
	jq -nc '{type: "error", error: {code: "unknown_name", message: "there is nobody of that name", effect: "none"}}'
	exit
fi
echo '{"type":"progress","data":{"done":1,"total":2}}'
echo '{"type":"chunk","data":"Hello"}'
jq -nc --arg text "Hello $name" '{type: "output", output: {text: $text}}'
