#!/bin/sh
# Schedules a job by one line of JSON: every second. Arguments: bootstrap servers, the job's name, more words for kcat.
set -eu
bootstrap=$1 name=$2
shift 2
echo '{"name":"'"$name"'","handler":"demo.echo","every":"1s","payload":{"from":"kcat"}}' |
  kcat -P -b "$bootstrap" -t waterclock.job-events -H content-type=application/json -k "default:$name" "$@"
