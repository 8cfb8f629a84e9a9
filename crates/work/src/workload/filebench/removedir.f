# Removes directories until none of the set is left.
set $nfiles=1000000
set $dirwidth=100
set $nthreads=1

define fileset name=dirs,path=/,leafdirs=$nfiles,dirwidth=$dirwidth,prealloc=100

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop removedir name=remove,filesetname=dirs
  }
}

run 86400
