# The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON. It needs jq.
set -eu

call=$(cat)
of() { printf '%s' "$call" | jq -r "$1"; }
effect=$EFFECTS/$(of .idempotency_key) # stands for the service that the tool changes

if [ "$(of .op)" = lookup ]; then # it changes nothing
	if [ -e "$effect" ]; then cat "$effect"; else echo '{"type":"absent"}'; fi
	exit
fi
name=$(of .input.name)
if [ "$name" = nobody ]; then
	# The manifest declares the error. The effect says whether the call has changed anything.
	jq -nc '{type: "error", error: {code: "unknown_name", message: "there is nobody of that name", effect: "none"}}'
	exit
fi
if ! [ -e "$effect" ]; then # otherwise an earlier run has committed effect and output
	mkdir -p "$EFFECTS"
	jq -nc --arg text "Hello $name" '{type: "output", output: {text: $text}}' >"$effect.new"
	sync "$effect.new" # before the rename: otherwise a power cut may leave an empty file
	mv "$effect.new" "$effect"
	sync "$EFFECTS"
fi
cat "$effect"
