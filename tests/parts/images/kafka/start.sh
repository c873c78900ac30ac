#!/usr/bin/env bash
# KAFKA_LOG_DIRS is the setting log.dirs: the names are read as Apache's image reads them.
set -euo pipefail
settings=/tmp/server.properties
env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' | while IFS='=' read -r name value; do
  name=${name#KAFKA_} name=${name//___/-} name=${name//__/+} name=${name//_/.} name=${name//+/_}
  echo "${name,,}=$value"
done >"$settings"
export CLASSPATH='/opt/kafka/libs/*'
java="java ${KAFKA_HEAP_OPTS:--Xmx512m} -XX:+UseSerialGC"
$java kafka.tools.StorageTool format --ignore-formatted --cluster-id gpuledger-tests-000000 --config "$settings"
exec $java kafka.Kafka "$settings"
