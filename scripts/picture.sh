#!/usr/bin/env bash
# Makes docs/demo.svg, which the README shows: the demo, played in a terminal of 100 columns. Needs
# tmux.
. "$(dirname "$0")/lib.sh"
command -v tmux >/dev/null || {
	echo "this takes tmux" >&2
	exit 1
}
columns=100
work=$(mktemp -d)
terminal() { tmux -S "$work/socket" -f /dev/null "$@"; }
trap 'terminal kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
go build -o "$work/fairlock" ./cmd/fairlock
go build -o "$work/picture" ./docs/picture
# The pane stays after the end of the demo, so that there is time to capture it. It is so high that
# nothing scrolls out.
unset NO_COLOR
terminal new-session -d -x $columns -y 80 \
	"'$work/fairlock' demo; echo \$? >'$work/code'; tmux -S '$work/socket' wait-for -S over; sleep 60"
terminal wait-for over
[ "$(cat "$work/code")" = 0 ] || {
	terminal capture-pane -p >&2
	exit 1
}
terminal capture-pane -e -p | "$work/picture" -columns $columns >"$work/demo.svg"
mv "$work/demo.svg" docs/demo.svg
